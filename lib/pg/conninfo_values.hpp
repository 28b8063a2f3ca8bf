#pragma once

#include <string>
#include <vector>

#include "pg/conninfo.hpp"

namespace ff::pg {

/// Part of parse_conninfo(): what it refuses of values. All throw what it throws.

/// Before libpq does, who does not say which words there are.
void refuse_unknown_words(const Keywords& given);
/// libpq would read a pipe or a device for ever.
void refuse_endless_service_file(const Keywords& given);
/// What libpq says of what it was given, or took from elsewhere.
[[noreturn]] void refuse_as_libpq_does(const Keywords& given, const std::string& message);
/// A whole connection string where a name belongs, from PGDATABASE for instance: libpq would take all of it for the name, and
/// a name is shown.
void refuse_strings_for_names(const Conninfo& conninfo);
/// libpq notices these only when it connects, or never where it has another host to try.
void refuse_impossible(const Conninfo& conninfo);

/// Whether a service has a say.
bool names_service(const Keywords& given);
/// A list such as libpq takes for several hosts. An empty part counts, at the end as well: of "h1:5433,h2" the ports are
/// "5433,".
std::vector<std::string> split(const std::string& list);

}  // namespace ff::pg
