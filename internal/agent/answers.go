package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/nri"
)

// answersFile is what the container runtime was answered, in stateDir: a line of JSON for
// each answer, of two for one container the later counts. It is not fsynced, as replaceFile
// says; the containers it speaks of end with the boot. Without it
// an agent that starts takes the CPUs of containers that the journal does not have for
// another owner's.
const answersFile = "answers"

// mostAppended is how many lines are appended until the file is written anew.
const mostAppended = 4096

// answered is one line.
type answered struct {
	BootID    string `json:"bootID"`
	Container string `json:"container"`
	inventory.Answered
}

// recallAnswers takes over what an earlier agent of this boot answered.
func (c *controller) recallAnswers() {
	data, err := os.ReadFile(c.answersPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.opts.Log.Warn("answers to the runtime ignored", "error", err)
	}
	all := map[string]inventory.Answered{}
	for line := range bytes.Lines(data) {
		var a answered
		if err := json.Unmarshal(line, &a); err != nil {
			c.opts.Log.Warn("an answer to the runtime ignored", "file", c.answersPath(), "error", err)
		} else if a.BootID == c.opts.BootID {
			all[a.Container] = a.Answered
		}
	}
	c.inventory.Recall(all)
}

// saveAnswers writes down what the runtime is about to be answered. A container gets its
// CPUs also where that fails.
func (c *controller) saveAnswers(e nri.Event, r nri.Reply) {
	ids := make([]string, 0, 1+len(r.Updates))
	if r.Adjust != (nri.Settings{}) {
		ids = append(ids, e.Container.ID)
	}
	for _, u := range r.Updates {
		ids = append(ids, u.ContainerID)
	}
	if len(ids) == 0 && e.Kind != nri.Synchronize {
		return
	}
	all, write := c.inventory.Answers(), c.appendAnswers
	if e.Kind == nri.Synchronize || c.pins.appended+len(ids) > mostAppended {
		ids, c.pins.appended, write = slices.Sorted(maps.Keys(all)), 0, c.replaceAnswers
	}
	c.pins.appended += len(ids)
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	var err error
	for _, id := range ids {
		err = errors.Join(err, encoder.Encode(answered{c.opts.BootID, id, all[id]}))
	}
	if err = errors.Join(err, write(lines.Bytes())); err != nil {
		c.fail("answers to the runtime", err)
	}
}

func (c *controller) appendAnswers(lines []byte) error {
	file, err := os.OpenFile(c.answersPath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("append to %s: %w", answersFile, err)
	}
	_, err = file.Write(lines)
	return errors.Join(err, file.Close())
}

func (c *controller) replaceAnswers(lines []byte) error {
	return replaceFile(c.opts.Config.StateDir, answersFile, lines)
}

func (c *controller) answersPath() string { return filepath.Join(c.opts.Config.StateDir, answersFile) }
