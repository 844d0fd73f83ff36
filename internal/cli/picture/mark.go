package picture

import "github.com/berth-project/berth/internal/linux/topology"

// Kind is the kind of a CPU in a picture.
type Kind int

// Kinds of CPUs, in the order of a legend.
const (
	// Plain is a CPU about which the picture says nothing.
	Plain Kind = iota
	// Chosen is a CPU of the answer.
	Chosen
	// Held is a CPU that one of the picture's holders has.
	Held
	// Empty is an SMT sibling that exclusivity keeps from all pods.
	Empty
	// Taken is a CPU that another workload has.
	Taken
	// Off is a CPU that is reserved or isolated, or belongs to an efficiency core that no request allows.
	Off
	// Free is an available CPU.
	Free
	// Efficiency is a CPU of an efficiency core.
	Efficiency
	// Isolated is a CPU that the boot arguments keep from the scheduler.
	Isolated
	kinds
)

// Mark is the kind of one CPU.
type Mark struct {
	Kind Kind
	// Holder is the index in Picture.Holders for a Held CPU.
	Holder int
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Sign returns the mark as one character.
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

// Word describes a kind; it is empty for Plain and Held.
func (k Kind) Word() string {
	return [kinds]string{
		Chosen: "chosen", Empty: "sibling left empty", Taken: "taken", Off: "not to be had", Free: "free",
		Efficiency: "efficiency core", Isolated: "isolated",
	}[k]
}

// Legend returns a kind's sign and its meaning.
func (k Kind) Legend() string { return string(Mark{Kind: k}.Sign()) + " " + k.Word() }

// Picture is one machine with a mark for each of its CPUs.
type Picture struct {
	// Name is printed above the machine, empty for none.
	Name    string
	Machine *topology.Topology
	// Holders are the names of the holders of CPUs, by Mark.Holder.
	Holders []string
	// Mark returns the mark of a CPU.
	Mark func(cpu int) Mark
	// Numbered makes an SVG show CPU numbers instead of signs.
	Numbered bool
}

// Has reports whether a CPU of the machine is of kind k.
func (p *Picture) Has(k Kind) bool {
	for cpu := range p.Machine.Online.All() {
		if p.Mark(cpu).Kind == k {
			return true
		}
	}
	return false
}
