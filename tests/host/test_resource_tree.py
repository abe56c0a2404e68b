"""ResourceTree: resources by the segments of their URIs."""

from carrel.host.resource_tree import ResourceTree, readable, readable_path, segments
from carrel.wire.resources import Resource


def test_uris_are_split_at_the_slashes_of_their_paths():
    assert segments("file:///a/b/") == ["file://", "a", "b"]
    assert segments("book://lem/solaris?page=1/2") == ["book://lem", "solaris?page=1/2"]
    assert segments("memo:one") == ["memo:one"]


def test_segments_are_decoded_unless_that_changes_their_number():
    assert [readable(part) for part in ("a%2Fb", "%FF", "a%20b", "file://")] == ["a%2Fb", "%FF", "a b", "file://"]


def test_chains_of_only_children_are_one_line():
    tree = ResourceTree()
    first = tree.add(Resource("file:///home/ada/a.md", "a"))
    tree.add(Resource("file:///home/ada/b%20c/d.md", "d"))
    (parts, node) = tree.children["file://"].merged("file://")
    assert readable_path(parts) == "file:///home/ada"
    assert node.children["a.md"] is first
    assert readable_path(node.children["b%20c"].merged("b%20c")[0]) == "b c/d.md"
    assert not node.is_directory
