"""Policies: the roles of callers and the access rules of roles, as ``[access]`` of ``carrel.toml`` has them, and gates
of policy engines.
"""

from carrel.policy.engine import EngineAnswer, EngineGate, PolicyEngine
from carrel.policy.gate import PolicyGate
from carrel.policy.policy import Policy, PolicyRule
from carrel.policy.reading import read_policy
from carrel.policy.role import Role

__all__ = [
    "EngineAnswer",
    "EngineGate",
    "Policy",
    "PolicyEngine",
    "PolicyGate",
    "PolicyRule",
    "Role",
    "read_policy",
]
