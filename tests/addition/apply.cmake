# cmake -DSOURCE=… -DCOPY=… -P apply.cmake: does in COPY, file by file, what CONTRIBUTING.md says that adding a reconciler
# takes, with the example beside this file. Each file that is touched has to be named there.
cmake_minimum_required(VERSION 3.25)

set(name dispatch_outbox_retention)
set(example ${CMAKE_CURRENT_LIST_DIR}/example)

file(READ ${SOURCE}/CONTRIBUTING.md contributing)
string(REGEX MATCH "## Adding a reconciler\n.*\n## Adding a configuration key" steps "${contributing}")

# Files of this kind are touched; CONTRIBUTING.md calls them `called`.
function(named called)
  string(FIND "${steps}" "${called}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "CONTRIBUTING.md, \"Adding a reconciler\": ${called} has to be touched, and is not named")
  endif()
endfunction()

# insert FILE ANCHOR TEXT: TEXT before ANCHOR, which stands in FILE once.
function(insert file anchor text)
  file(READ ${SOURCE}/${file} before)
  string(REPLACE "${anchor}" "${text}${anchor}" after "${before}")
  string(LENGTH "${before}${text}" wanted)
  string(LENGTH "${after}" length)
  if(NOT length EQUAL wanted)
    message(FATAL_ERROR "${file} has \"${anchor}\" not once: say in tests/addition/apply.cmake where the example goes")
  endif()
  file(WRITE ${COPY}/${file} "${after}")
endfunction()

file(REMOVE_RECURSE ${COPY})

named("`lib/reconcile/family`")
file(COPY ${example}/${name}.cpp DESTINATION ${COPY}/lib/reconcile/family)
named("`tests/pg`")
file(COPY ${example}/${name}_test.cpp DESTINATION ${COPY}/tests/pg)
named("`registry.def`")
insert(lib/reconcile/family/registry.def "FF_RECONCILER(execution_retention)\n" "FF_RECONCILER(${name})\n")
named("`tests/support/stages.cpp`")
file(READ ${example}/stage.txt stage)
insert(tests/support/stages.cpp "      {\"worker_registry_ttl\",\n" "${stage}")
named("README")
insert(README.md "| `execution_retention` | off;" "| `${name}` | cancels that nobody dispatched | `forgotten` | 1 min |\n")
named("config/ff-reconciler.yaml")
file(READ ${example}/config.yaml section)
insert(config/ff-reconciler.yaml "  execution_retention:  #" "${section}")
named("docs/configuration.md")
file(READ ${example}/configuration_row.md row)
insert(docs/configuration.md "| `execution_retention` | false |" "${row}")
named("docs/actions.md")
file(READ ${example}/actions_row.md row)
insert(docs/actions.md "| `execution_retention` | `executions_deleted` | deleted | the execution was" "${row}")
named("`CHANGELOG.md`")
insert(CHANGELOG.md "- The daemon, its configuration, metrics and life cycle." "- New reconciler `${name}`: cancels that nobody dispatched are forgotten.\n")
