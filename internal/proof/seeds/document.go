package seeds

import (
	"context"

	"github.com/berth-project/berth/internal/proof/bench"
)

// Experiment is what a document prints of an experiment.
type Experiment struct {
	Name string `json:"name"`
	// Document is the title of the document, and Load its load, as the document describes both.
	Document string `json:"document"`
	Load     string `json:"load"`
	// Arms are the arms of this package, the reference first. Treated is the arm that shows what the document claims.
	Arms    []string `json:"arms"`
	Treated string   `json:"treated"`
	Figures []Figure `json:"figures"`
	// Remark is what a reader of the document's figures should know, "" for nothing.
	Remark string `json:"remark,omitempty"`
	// open prepares the arms on this machine. measure measures the whole experiment here. One of them is nil.
	open    func(host, context.Context) (Opened, error)
	measure func(host, context.Context, Measured) (Measured, error)
}

// Figure is a figure with the values that a document prints.
type Figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Before and After are the printed values.
	Before float64 `json:"printedBefore"`
	After  float64 `json:"printedAfter"`
	// Quantile is that of a latency whose samples this package has, 0 for other figures.
	Quantile float64 `json:"-"`
}

// The arms. An arm whose name ends with Again is the second run of another arm.
const (
	AnyCPUs     = "any CPUs"
	Pinned      = "pinned"
	Scattered   = "other CPUs in turns"
	Limited     = "limit"
	StaticBurst = "static-burst"
	Burst       = "burst"
	Unlimited   = "unlimited"
	NoProfile   = "none"
	AsPrinted   = "as printed"
	LowLatency  = "low-latency"
	Again       = " again"
)

const (
	topologyDocument   = "ACK: CPU topology-aware scheduling"
	throttleDocument   = "Koordinator: CPU throttling of containers"
	kernelDocument     = "A hosting company: scheduler settings of a NUMA server"
	identityDocument   = "Group Identity of Alibaba's kernel"
	nearMemoryDocument = "ACK: faster access to near memory"
)

// Experiments returns all experiments, in the order of the documents.
func Experiments() []Experiment {
	return []Experiment{
		{
			Name: "nginx", Document: topologyDocument, open: host.openNginx,
			Load: "wrk --timeout 2s -t 20 -c 100 -d 60s --latency on nginx in one of two pods of 4 CPUs, on a machine of 104 or 256 CPUs",
			Arms: []string{AnyCPUs, Pinned, Scattered, AnyCPUs + Again}, Treated: Pinned,
			Figures: []Figure{
				{Name: "requests", Unit: "1/s", Before: 212350.15, After: 305119.06},
				{Name: "mean", Unit: "us", Before: 600.58, After: 345.79},
				{Name: "p50", Unit: "us", Before: 462, After: 327},
				{Name: "p75", Unit: "us", Before: 680, After: 444},
				{Name: "p90", Unit: "us", Before: 738, After: 479},
				{Name: "p99", Unit: "us", Before: 900, After: 571},
			},
		},
		{
			Name: "cal-pi", Document: topologyDocument, open: host.openPi,
			Load: "20,000 digits of Pi on 3,000 threads in a pod of 4 CPUs, on a machine of 64 CPUs",
			Arms: []string{Pinned, StaticBurst, Limited, Pinned + Again}, Treated: StaticBurst,
			Figures: []Figure{{Name: "time", Unit: "ms", Before: 620892, After: 571221}},
			Remark:  "the document has one run of each arm, and no arm without exclusive CPUs",
		},
		{
			Name: "apache", Document: throttleDocument, open: host.openApache,
			Load: "wrk2 -t 2 -c 12 -d 120 -R 24 on a file of 1 MiB, compressed by apache in a pod of 4 CPUs",
			Arms: []string{Limited, Burst, Unlimited, Limited + Again}, Treated: Burst,
			Figures: []Figure{{Name: "p99", Unit: "ms", Before: 231.93, After: 99.52, Quantile: 0.99}},
			Remark:  "the document has no arm without a limit, and so not the latency without throttling",
		},
		{
			Name: "profiles", Document: kernelDocument, measure: host.profiles, Load: "not given: wrk2 and perf stat",
			Arms: []string{NoProfile, AsPrinted, LowLatency, NoProfile + Again}, Treated: AsPrinted,
			Figures: []Figure{
				{Name: "p99", Unit: "ms", Before: 28.3, After: 9.1, Quantile: 0.99},
				{Name: CPUUse, Unit: "%", Before: 40, After: 82},
				{Name: Switches, Unit: "1/s", Before: 540e3, After: 310e3},
				{Name: Traffic, Unit: "MB/s", Before: 8.7, After: 1.2},
			},
			Remark: "the document names neither the load nor the number of runs. Its boot arguments, and its CPUs and memory nodes of slices, are those of its machine: no arm has them. " +
				"The traffic here is of pages that the kernel allocated on another node than that of the CPU, each counted once",
		},
		{
			Name: "online", Document: identityDocument, measure: host.online,
			Load: "1,000 requests one after the other, beside 24 hogs with a quota of 80 % of 24 CPUs",
			Figures: []Figure{
				{Name: "p50", Unit: "ms", Before: 1.558533, After: 1.557837, Quantile: 0.5},
				{Name: "p95", Unit: "ms", Before: 1.575515, After: 1.574852, Quantile: 0.95},
				{Name: "p99", Unit: "ms", Before: 1.67129, After: 1.67129, Quantile: 0.99},
			},
			Arms: []string{bench.Alone, bench.DefaultShares, bench.IdleGroup, bench.AloneAgain}, Treated: bench.IdleGroup,
			Remark: "printed are the server alone and the server beside hogs. Its second summary contains the requests of the first, and no arm has the hogs without Group Identity",
		},
		{
			Name: "redis", Document: nearMemoryDocument, measure: host.redis,
			Load: "redis-benchmark -t GET -c 500 -d 4096 -n 2000000, and with 10,000 clients, on 43 % local pages, then 98 %",
			Figures: []Figure{
				{Name: "QPS, 500 clients", Unit: "1/s", Before: 122139.91, After: 129367.11},
				{Name: "p99, 500 clients", Unit: "ms", Before: 3, After: 3},
				{Name: "p99.99, 500 clients", Unit: "ms", Before: 9.6, After: 8.2},
				{Name: "QPS, 10000 clients", Unit: "1/s", Before: 119895.56, After: 125401.44},
				{Name: "p99, 10000 clients", Unit: "ms", Before: 115, After: 101},
				{Name: "p99.99, 10000 clients", Unit: "ms", Before: 152.6, After: 145.2},
			},
			Arms: redisArms(), Treated: bench.MixedMoved,
			Remark: "the command without -r asks for one key, which never touches the moved pages. " +
				"On a second machine, with 47 % local pages and then 88 %, QPS rise by 0.8 % with 500 clients and by 1.3 % with 10,000. " +
				"Local pages give 10.52 % more QPS than mixed pages, and 26.12 % more than remote pages",
		},
	}
}

// Names returns the names of all experiments.
func Names() []string {
	var names []string
	for _, e := range Experiments() {
		names = append(names, e.Name)
	}
	return names
}
