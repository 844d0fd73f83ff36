package picture

import "github.com/berth-project/berth/internal/topology"

// Kind is what a CPU is in a picture.
type Kind int

// Kinds of CPUs, in the order of a legend.
const (
	// Plain is a CPU of which nothing is said.
	Plain Kind = iota
	// Chosen is a CPU of the answer.
	Chosen
	// Held is a CPU that one of the picture's holders has.
	Held
	// Empty is a sibling that exclusivity keeps from all pods.
	Empty
	// Taken is a CPU that others have.
	Taken
	// Off is reserved, isolated, or an efficiency core that no request allows.
	Off
	// Free can be had.
	Free
	// Efficiency is a CPU of an efficiency core.
	Efficiency
	// Isolated is a CPU that the boot arguments keep from the scheduler.
	Isolated
	kinds
)

// Mark says what one CPU is.
type Mark struct {
	Kind Kind
	// Holder is, of Held, which of the picture's holders has the CPU.
	Holder int
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Sign is the mark as one character.
func (m Mark) Sign() rune {
	if m.Kind != Held {
		return signs()[m.Kind]
	}
	if m.Holder < len(letters) {
		return rune(letters[m.Holder])
	}
	return signs()[Taken]
}

func signs() [kinds]rune {
	return [kinds]rune{Plain: '.', Chosen: '#', Held: 'x', Empty: '_', Taken: 'x', Off: '-', Free: '.', Efficiency: 'e', Isolated: 'i'}
}

// Word says what a kind means, empty for Plain and Held.
func (k Kind) Word() string {
	return [kinds]string{
		Chosen: "chosen", Empty: "sibling left empty", Taken: "taken", Off: "not to be had", Free: "free",
		Efficiency: "efficiency core", Isolated: "isolated",
	}[k]
}

// Legend is a kind's sign with what it means.
func (k Kind) Legend() string { return string(Mark{Kind: k}.Sign()) + " " + k.Word() }

// Picture is one machine with a mark for each of its CPUs.
type Picture struct {
	// Name stands above the machine, empty for none.
	Name    string
	Machine *topology.Topology
	// Holders are the names of those that have CPUs, by Mark.Holder.
	Holders []string
	// Mark says what a CPU is.
	Mark func(cpu int) Mark
	// Numbered has an SVG show the numbers of the CPUs instead of their signs.
	Numbered bool
}

// Has says whether a CPU of the machine is of a kind.
func (p *Picture) Has(k Kind) bool {
	for cpu := range p.Machine.Online.All() {
		if p.Mark(cpu).Kind == k {
			return true
		}
	}
	return false
}
