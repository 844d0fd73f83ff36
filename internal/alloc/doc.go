// Package alloc decides which CPUs of one machine a pod gets.
package alloc
