package switchback

import "errors"

var (
	// ErrCommand says that the command failed: it measured nothing.
	ErrCommand = errors.New("the command failed")
	// ErrMetric says that the command printed no value above 0 where the metric is.
	ErrMetric = errors.New("no value of the metric")
	// errStays says that the command does not end although it got SIGKILL.
	errStays = errors.New("it stays after SIGKILL")
	// errOver says that the time of the trial is over.
	errOver = errors.New("the time of the trial is over")
)
