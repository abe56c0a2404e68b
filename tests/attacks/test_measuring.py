"""The measuring of servers under attack."""

from support.measured_server import under_attack


def test_a_server_is_measured_while_another_client_reads(tmp_path):
    (tmp_path / "a.txt").write_text("small")
    with under_attack("serve", str(tmp_path)) as server:
        with server.honest_reads(f"file://{tmp_path}/a.txt") as reads:
            listed = server.ask("resources/list")
            before = server.descriptors()
            while len(reads.seconds) < 5:
                assert not reads.problems
        reads.check()
        assert "a.txt" in [entry["name"] for entry in listed["result"]["resources"]]
        assert 10 < server.rss() < 200
        assert 5 < server.descriptors() <= before + 3
