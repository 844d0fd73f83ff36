package mover

import (
	"errors"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/linux/pages"
)

// scanLasts is how long a pass uses one reading of the maps of all processes; in that time others may map the memory. A
// pass spends at most 1/scanShare of its time on scans.
const (
	scanLasts = 10 * time.Second
	scanShare = 50
)

// errBlind means that unseen processes may have memory mapped.
var errBlind = errors.New("this program does not see all processes of the host: it is in a pid namespace of its own")

// among returns the pages of shared memory that only processes of the group have mapped. The other pages stay: this
// group alone must not decide where they are.
func (p *pass) among(list []page) (ours []page) {
	if now := p.m.opts.Clock(); p.sole == nil || now >= p.rescan {
		var err error
		if p.sole, err = p.m.sole(p.order.Group); err != nil {
			p.sole = map[string]bool{}
			p.report.warn("memory that several processes share stays: %v", err)
		}
		ended := p.m.opts.Clock()
		p.rescan = ended + max(scanLasts, scanShare*(ended-now))
	}
	for _, g := range list {
		if p.sole[p.walk.mapping(g).Memory] {
			ours = append(ours, g)
		} else {
			p.report.leave(locality.LeftShared, g.base())
		}
	}
	return ours
}

// sole returns the shared memory that only processes of the group have mapped.
func (m *Mover) sole(group string) (map[string]bool, error) {
	if !m.opts.Groups.SeesAll() {
		return nil, errBlind
	}
	return pages.Sole(m.opts.Kernel, func() ([]int, error) { return m.opts.Groups.Processes(group) })
}
