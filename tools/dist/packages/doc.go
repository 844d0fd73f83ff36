// Package packages tests the .deb and the .rpm of deploy/package. The tests install, upgrade and remove them with dpkg
// and rpm, each in its own root directory, and check which commands their scripts call. Other tests cover what systemd
// and Berth do then, such as TestPackageOnSystemd of test/cluster/vmnode. The package has tests only.
package packages
