// Package systemd asks systemd, over D-Bus, to set values of its units, and reads what it has on record for them.
// systemd writes its units' values again at every daemon-reload, so a direct write to their files would not last.
//
// Files: conn.go sets the lists and weights of units, with properties.go, which also reads what systemd has on record.
// unit.go finds the unit of a group. slice.go starts and stops slices. later.go defers requests for a loop that must
// not wait for systemd, and asking.go asks for them outside the loop. answered.go removes answers to the container
// runtime from systemd's records.
package systemd
