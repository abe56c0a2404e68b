"""Routes: which provider has a URI."""

from __future__ import annotations

import logging

import pytest

from carrel.catalog.provider import Provider, Request
from carrel.catalog.routes import ProviderRoutes, check_length, valid_uri
from carrel.errors import InvalidParams
from carrel.uri.template import MAX_URI


class Named(Provider):
    def __init__(self, name, *, prefixes=(), exact=(), catch_all=False):
        self.name = name
        self.prefixes = tuple(prefixes)
        self.exact = set(exact)
        self.catch_all = catch_all


def routes_of(*providers, **templates):
    routes = ProviderRoutes()
    routes.index(providers)
    for provider in providers:
        routes.route(provider, templates.get(provider.name, ()))
    return routes


def test_a_uri_is_contained_if_a_provider_may_have_it():
    routes = routes_of(Named("a", prefixes=["a://x"], exact=["e:1"]), Named("b"), b=["b:{id}"])
    inside, outside = ["e:1", "a://x", "a://x/1", "A://x/1", "b:1", "B:%31"], ["e:2", "a://xy", "c:1", "no uri", "", 7]
    assert [uri for uri in [*inside, *outside] if uri in routes] == inside
    assert f"b:{'x' * (MAX_URI - 2)}" in routes
    assert f"b:{'x' * (MAX_URI - 1)}" not in routes
    assert "c:1" in routes_of(Named("all", catch_all=True))
    assert "c:1" not in routes_of()


def test_a_uri_is_also_contained_in_the_spelling_of_a_template():
    routes = routes_of(Named("a"), a=["a://HOST/{id}"])
    assert routes.find_by_template("a://host/1", None) is None
    assert "a://HOST/1" in routes
    assert "a://host/1" not in routes


def test_templates_of_a_provider_are_replaced_and_those_of_others_stay(caplog):
    one, two = Named("one", prefixes=["p:"]), Named("two")
    routes = routes_of(one, two, one=["x:{a}", "p:{a}"], two=["x:{a}", "y:{a}"])
    assert routes.find("x:1") is one
    assert routes.find("y:1") is two
    request = Request()
    assert routes.find("x:1", request) is one
    assert (request.template, request.values) == ("x:{a}", {"a": "1"})
    routes.route(one, ["z:{a}"])
    assert (routes.find("x:1"), routes.find("z:1"), routes.find("y:1")) == (None, one, two)
    routes.route(two, ["x:{a}"])
    assert (routes.find("x:1"), routes.find("y:1")) == (two, None)
    with caplog.at_level(logging.WARNING, "carrel"):
        routes.route(two, ["x:{a"])
    assert "two: x:{a is not a URI template" in caplog.text


def test_the_first_provider_of_a_prefix_has_it(caplog):
    one, two = Named("one", prefixes=["p:"]), Named("two", prefixes=["p:", "q:"])
    with caplog.at_level(logging.WARNING, "carrel"):
        routes = routes_of(one, two)
    assert (routes.find("p:1"), routes.find("q:1")) == (one, two)
    assert "p: is in one and in two; the first one answers" in caplog.text


def test_a_uri_belongs_to_its_provider_rather_than_to_one_that_takes_all():
    one, two, any_uri, other = Named("one", exact=["e:1"]), Named("two", prefixes=["p:"]), Named("all"), Named("other")
    any_uri.catch_all = other.catch_all = True
    routes = routes_of(one, two, any_uri, other)
    assert routes.owns(one, "e:1")
    assert routes.owns(two, "p:1")
    assert not routes.owns(two, "e:1")
    assert not routes.owns(any_uri, "c:1")
    owners = {"e:1": [one], "p:1": [two], "c:1": [any_uri, other]}
    for uri, expected in owners.items():
        assert [each for each in (one, two, any_uri, other) if routes.may_own(each, uri)] == expected


def test_a_template_that_nobody_has_is_unknown_but_a_resource_has_no_variables():
    one = Named("one", exact=["e:1"])
    routes = routes_of(one, one=["x:{a}"])
    assert routes.owner_of_template("x:{a}", Request()) is one
    assert routes.owner_of_template("e:1", Request()) is None
    with pytest.raises(InvalidParams, match="unknown resource template: x:"):
        routes.owner_of_template("x:{b}", Request())


def test_a_uri_of_a_client_is_short_and_has_a_normal_form():
    assert valid_uri("A://HOST/%7Ea") == "a://host/~a"
    check_length("x" * MAX_URI)
    for uri in ("x" * (MAX_URI + 1), "a b"):
        with pytest.raises(InvalidParams) as refused:
            valid_uri(uri)
        assert refused.value.data["reason"] == "invalid"
