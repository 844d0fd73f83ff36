// Package schedule is the plugin of kube-scheduler.
package schedule
