package switchback

import "errors"

var (
	// ErrCommand reports that the command failed: the run measured nothing.
	ErrCommand = errors.New("the command failed")
	// ErrMetric reports that the command printed no metric above 0.
	ErrMetric = errors.New("no value of the metric")
	// errStays reports that the command does not end after SIGKILL.
	errStays = errors.New("it stays after SIGKILL")
	// errOver reports that the time of the trial is over.
	errOver = errors.New("the time of the trial is over")
)
