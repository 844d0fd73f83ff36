package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/window"
)

// longestRecording bounds a recording, which a browser holds in memory as a whole.
const longestRecording = 256 << 20

// Errors of recordings.
var (
	ErrNoRecording = errors.New("no recording: berth status --watch -o json > FILE makes one")
	ErrTooLong     = errors.New("longer than 256 MiB: record less")
)

// Recording is recorded streams, to be shown again.
type Recording struct {
	lines  []byte
	Frames int
}

// ReadRecording reads the output of berth status --watch -o json. It leaves out an incomplete last line, as of a
// recorder that was killed.
func ReadRecording(r io.Reader) (*Recording, error) {
	text, err := io.ReadAll(io.LimitReader(r, longestRecording+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read recording: %w", err)
	case len(text) > longestRecording:
		return nil, ErrTooLong
	}
	var all Recording
	var lines bytes.Buffer
	for d := json.NewDecoder(bytes.NewReader(text)); ; all.Frames++ {
		var one json.RawMessage
		err := d.Decode(&one)
		if done := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); done && all.Frames > 0 {
			all.lines = lines.Bytes()
			return &all, nil
		}
		if err == nil {
			err = check(one, all.Frames == 0)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: value %d of the file: %w", ErrNoRecording, all.Frames+1, err)
		}
		if err := json.Compact(&lines, one); err != nil {
			return nil, fmt.Errorf("value %d of the recording: %w", all.Frames+1, err)
		}
		lines.WriteByte('\n')
	}
}

// Errors of values in a recording.
var (
	errNoView  = errors.New("it begins with no view")
	errFormat  = fmt.Errorf("a format that this version does not read, which is %d", view.Format)
	errNeither = errors.New("neither a view nor what changed since one")
)

// check returns what is wrong with one value of a recording.
func check(text json.RawMessage, first bool) error {
	var kind struct {
		Format int             `json:"v"`
		Set    json.RawMessage `json:"set"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	switch {
	case kind.Format == view.Format, kind.Set != nil && !first:
		return nil
	case kind.Format != 0:
		return errFormat
	case first:
		return errNoView
	}
	return errNeither
}

// Serve serves the recording at a listener of this host until ctx ends.
func (r *Recording) Serve(ctx context.Context, l net.Listener, log *slog.Logger) error {
	return window.ServeAt(ctx, l, window.Guard(nil, r.handler(log)))
}

// handler serves the page, which plays the recording. A header of the stream marks it as a recording.
func (r *Recording) handler(log *slog.Logger) http.Handler {
	mux := nodePage()
	mux.HandleFunc("GET "+window.StreamPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Berth-Recording", "1")
		if _, err := w.Write(r.lines); err != nil {
			log.Debug("recording not sent", "error", err)
		}
	})
	return mux
}
