# The Debian package: `./dev package`, or `cpack -G DEB` in a build tree. Included last by the top CMakeLists.txt.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME nvmaint)
set(CPACK_PACKAGE_VENDOR "The nvmaint authors")
set(CPACK_PACKAGE_CONTACT "The nvmaint authors <nvmaint@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "keeps the NVMe drives of database hosts fast, trimmed and healthy")
set(CPACK_PACKAGE_DESCRIPTION
"A system service and a command line that find out why flushes of an NVMe drive stall, which filesystems are
never trimmed and why, and that trim them in ranges, with the flush latency before and after as proof.
The service is installed disabled, and observes only until its policy says otherwise.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};nvmaint;ALL;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# systemd for busctl, systemd-run and the unit; the bus is how everybody talks to the service.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd, default-dbus-system-bus | dbus-system-bus")
# Without polkit only root may change anything.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS polkitd)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/units/debian/postinst
  ${CMAKE_SOURCE_DIR}/units/debian/prerm
  ${CMAKE_SOURCE_DIR}/units/debian/postrm)
include(CPack)
