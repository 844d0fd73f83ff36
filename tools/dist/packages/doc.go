// Package packages installs, upgrades and removes the .deb and the .rpm of deploy/package with dpkg
// and rpm, each in a root directory of its own, and looks at what their scripts call. What systemd
// and Berth make of these calls, other tests say. It has tests only.
package packages
