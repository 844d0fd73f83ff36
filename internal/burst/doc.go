// Package burst is the control law of CPU burst.
package burst
