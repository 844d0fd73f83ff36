package v1alpha1

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ValidateAgentConfig returns every problem of c, which has its defaults. It does not parse the CPU list.
func ValidateAgentConfig(c AgentConfig) FieldErrors {
	var e FieldErrors
	if c.WorkloadDir == "" && !*c.Cluster.Enabled {
		e.add("workloadDir", nil, "the directory of the Workload files, for example /etc/berth/workloads")
	}
	e.path("workloadDir", c.WorkloadDir)
	e.path("stateDir", c.StateDir)
	if e.hosts("web.hosts", c.Web.Hosts); e.listen("listen", c.Listen) {
		e.web(c)
	}
	e.groups("sharedPool", c.SharedPool)
	e.between("isolation.pullReservePercent", c.Isolation.PullReservePercent, 0, 50)
	e.between("burst.maxPercent", c.Burst.MaxPercent, 100, 10000)
	e.between("burst.maxPeriodSeconds", c.Burst.MaxPeriodSeconds, 0, 86400)
	e.between("locality.maxBandwidthMiBps", c.Locality.MaxBandwidthMiBps, 0, 65536)
	e.burstStrategy("cpu-burst-config.clusterStrategy", c.CPUBurst.ClusterStrategy)
	e.resourceQOS("resource-qos-config.clusterStrategy", c.ResourceQOS.ClusterStrategy)
	e.resourceThreshold("resource-threshold-config.clusterStrategy", c.ResourceThreshold.ClusterStrategy)
	e.history("history", c)
	e.peers("readPeerConfig", c.ReadPeerConfig)
	e.cluster("cluster", c.Cluster)
	return e
}

// NoNRI is the value of nriSocket if the runtime has no NRI.
const NoNRI = "none"

func (e *FieldErrors) cluster(field string, c ClusterConfig) {
	e.pinRules(field+".pinning.", c.Pinning)
	e.path(field+".kubeconfig", c.Kubeconfig)
	e.path(field+".kubeletDir", c.KubeletDir)
	if e.path(field+".kubeletCA", c.KubeletCA); c.KubeletCA != "" && !strings.HasPrefix(c.KubeletCA, "/") {
		e.add(field+".kubeletCA", c.KubeletCA, "the absolute path of a file with PEM certificates, for example /etc/kubernetes/pki/ca.crt")
	}
	if u, err := url.Parse(c.KubeletURL); c.KubeletURL != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		e.add(field+".kubeletURL", c.KubeletURL, "an https URL of this host, for example https://127.0.0.1:10250")
	}
	if c.NRISocket != NoNRI && !strings.HasPrefix(c.NRISocket, "/") {
		e.add(field+".nriSocket", c.NRISocket, "the path of a socket, for example "+DefaultNRISocket+", or "+NoNRI)
	}
	const example = "unix:///run/containerd/containerd.sock"
	switch {
	case c.RuntimeEndpoint == "" && c.NRISocket == NoNRI:
		e.add(field+".runtimeEndpoint", nil, "without NRI the URL of the runtime's socket, for example "+example)
	case c.RuntimeEndpoint != "" && !strings.HasPrefix(c.RuntimeEndpoint, "unix:///"):
		e.add(field+".runtimeEndpoint", c.RuntimeEndpoint, "the URL of a socket, for example "+example)
	}
}

// ValidateCPUBurst returns every field of b that is out of its range.
func ValidateCPUBurst(b CPUBurst) FieldErrors {
	var e FieldErrors
	if b.Policy != nil {
		oneOf(&e, "policy", *b.Policy, CPUBurstPolicies())
	}
	e.between("cpuBurstPercent", b.CPUBurstPercent, 0, 10000)
	e.between("cfsQuotaBurstPercent", b.CFSQuotaBurstPercent, 100, 10000)
	e.between("cfsQuotaBurstPeriodSeconds", b.CFSQuotaBurstPeriodSeconds, -1, 86400)
	return e
}

// add records one problem; a nil value means that the field is missing.
func (e *FieldErrors) add(field string, value any, allowed string) {
	problem := FieldError{Field: field, Allowed: allowed}
	if value != nil {
		problem.Value = Show(value)
	}
	*e = append(*e, problem)
}

func (e *FieldErrors) between(field string, value *int64, low, high int64) {
	if value != nil && (*value < low || *value > high) {
		e.add(field, *value, fmt.Sprintf("%d to %d", low, high))
	}
}

func oneOf[T ~string](e *FieldErrors, field string, value T, allowed []T) {
	names := make([]string, len(allowed))
	for i, name := range allowed {
		if value == name {
			return
		}
		names[i] = string(name)
	}
	e.add(field, value, "one of "+strings.Join(names, ", "))
}

func (e *FieldErrors) groups(field string, groups []string) {
	if !e.short(field, len(groups)) {
		return
	}
	for i, group := range groups {
		e.cgroup(index(field, i), group)
		if slices.Contains(groups[:i], group) {
			e.add(index(field, i), group, "each group only once")
		}
	}
}

func (e *FieldErrors) peers(field string, peers []PeerConfig) {
	for i, peer := range peers {
		oneOf(e, index(field, i), peer, PeerConfigs())
		if slices.Contains(peers[:i], peer) {
			e.add(index(field, i), peer, "each only once")
		}
	}
}

func (e *FieldErrors) path(field, value string) {
	if strings.ContainsRune(value, 0) {
		e.add(field, value, "a path without NUL")
	}
}

// web checks who may send requests to which address. Without an API server only this host may. Beyond loopback every
// client needs a token, which only TLS keeps secret.
func (e *FieldErrors) web(c AgentConfig) {
	cluster, beyond := *c.Cluster.Enabled, !IsLoopback(c.Listen)
	switch {
	case *c.Web.Token && !cluster:
		e.add("web.token", true, "only with cluster.enabled: an API server reviews tokens")
	case !*c.Web.Token && cluster:
		e.add("web.token", false, "true with cluster.enabled: each pod in the host's network reaches the address")
	}
	for _, file := range []struct{ field, path string }{{"web.tls.certFile", c.Web.TLS.CertFile}, {"web.tls.keyFile", c.Web.TLS.KeyFile}} {
		e.path(file.field, file.path)
		switch {
		case file.path == "" && beyond && cluster:
			e.add(file.field, nil, "a file in PEM, since listen is beyond loopback")
		case file.path != "" && !beyond:
			e.add(file.field, file.path, "only with a listen beyond loopback")
		}
	}
	if beyond && !cluster {
		e.add("listen", c.Listen, "a loopback address without cluster.enabled, for example "+DefaultListen+": beyond it clients need a token, which an API server reviews")
	}
}

// IsLoopback reports whether an address, host:port, is reachable only from this host.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

func (e *FieldErrors) hosts(field string, hosts []string) {
	for i, host := range hosts {
		if host == "" || strings.ContainsAny(host, " \t/@[]*") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			e.add(fmt.Sprintf("%s[%d]", field, i), host, "a name or an address without a port, for example node-1.example.com")
		}
	}
}

// allowedListen is what the field listen allows.
const allowedListen = "host:port with a port from 0 to 65535, for example " + DefaultListen

func (e *FieldErrors) listen(field, value string) (ok bool) {
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		e.add(field, value, allowedListen)
	}
	return err == nil
}
