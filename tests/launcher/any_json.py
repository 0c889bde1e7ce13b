"""Random JSON values; many member names are those of a host's replies."""

from hypothesis import strategies as st

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["files", "path", "items", "players", "title", "url", "accent"])
            | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
