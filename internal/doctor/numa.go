package doctor

import (
	"path"
	"strconv"
	"strings"
)

// Limits of the checks of memory; (H) in the catalogue.
const (
	warnRemote     = 5     // percent
	mostRemote     = 20    // percent
	minPages       = 10000 // in the interval
	minFree        = 5     // percent
	otherFree      = 20    // percent
	maxRemoteNIC   = 50    // percent
	minInterrupts  = 100   // per second
	nodeDir        = "sys/devices/system/node/node"
	nodeStatFile   = "/numastat"
	nodeMemoryFile = "/meminfo"
)

// numaMismatch finds groups that must not use the memory nearest to their CPUs.
func numaMismatch(v *view) outcome {
	var o outcome
	reported := map[string]string{} // by group, the reported sets
	for _, dir := range v.groups {
		cpus, cpuFile := v.cpusOf(dir)
		mems, memFile := v.memsOf(dir)
		near := v.machine.MemoryNear(cpus)
		if cpus.IsEmpty() || mems.IsEmpty() || near.IsSubsetOf(mems) || keyed(v.now.files[dir+"/cgroup.events"])["populated"] == 0 {
			continue
		}
		what := cpus.String() + " " + mems.String()
		reported[dir] = what
		if reported[path.Dir(dir)] == what {
			continue
		}
		if !near.Intersects(mems) {
			o.severity = Critical
		}
		o.evidence = append(o.evidence,
			seen(cpuFile, "%s, of nodes %s", cpus, near),
			seen(memFile, "%s", mems))
	}
	return o
}

// numaRemote finds memory that is allocated from other nodes.
func numaRemote(v *view) outcome {
	var local, other float64
	var found []Evidence
	for _, n := range v.machine.Nodes {
		file := nodeDir + strconv.Itoa(int(n.ID)) + nodeStatFile
		now, then := keyed(v.now.files[file]), keyed(v.before.files[file])
		away := now["other_node"] - then["other_node"]
		local += now["local_node"] - then["local_node"]
		other += away
		if away > 0 {
			found = append(found, seen(file, "other_node: %.0f pages more", away))
		}
	}
	remote := share(other, local+other)
	switch {
	case local+other < minPages || remote <= warnRemote:
		return outcome{}
	case remote > mostRemote:
		return outcome{evidence: found, severity: Critical}
	}
	return outcome{evidence: found}
}

// numaFull finds a node without free memory while another node has plenty.
func numaFull(v *view) outcome {
	var full []Evidence
	var roomy []string
	for _, n := range v.machine.Nodes {
		file := nodeDir + strconv.Itoa(int(n.ID)) + nodeMemoryFile
		m := keyed(v.now.files[file])
		if m["MemTotal"] == 0 {
			continue
		}
		free := share(m["MemFree"]+m["Active(file)"]+m["Inactive(file)"], m["MemTotal"])
		switch {
		case free < minFree:
			full = append(full, seen(file, "%.1f %% free, page cache included", free))
		case free > otherFree:
			roomy = append(roomy, strconv.Itoa(int(n.ID)))
		}
	}
	if len(roomy) == 0 {
		return outcome{}
	}
	for i := range full {
		full[i].Value += ", room on node " + strings.Join(roomy, " ")
	}
	return outcome{evidence: full}
}
