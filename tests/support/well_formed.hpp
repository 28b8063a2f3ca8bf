#pragma once

#include <string>

namespace ff::test {

/// What is wrong with a text as XML, with the place; empty: it is well-formed. Strict in what matters to a page: every
/// element is closed, in order, every attribute has a name of its own and a quoted value, and no `<` or `&` stands
/// for itself. Knows the entities of XML, no comments and no CDATA. A DOCTYPE may come first.
std::string malformed(const std::string& text);

}  // namespace ff::test
