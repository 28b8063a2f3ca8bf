# Run by `cmake --install`, when the binary is there to be asked.
function(install_text what place)
  execute_process(COMMAND ${program} manual ${what} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  set(file $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${share}/${place})
  file(WRITE ${file} "${text}")
  file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  message(STATUS "Installing: ${file}")
endfunction()

install_text(ff-reconcilerd.8 man/man8/ff-reconcilerd.8)
install_text(ff-reconciler.yaml.5 man/man5/ff-reconciler.yaml.5)
install_text(bash-completion bash-completion/completions/ff-reconcilerd)
