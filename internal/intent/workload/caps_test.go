package workload

import "testing"

// TestCreditPeriodCaps checks that a user's annotation gets no more credit than the administrator permitted, and that
// the administrator's own strategy takes effect as written.
func TestCreditPeriodCaps(t *testing.T) {
	const (
		cap100    = `{"workloadDir":"w","burst":{"maxPeriodSeconds":100}}`
		unlimited = `{"workloadDir":"w","burst":{"allowUnlimited":true,"maxPeriodSeconds":100}}`
		strategy  = `{"workloadDir":"w","cpu-burst-config":{"clusterStrategy":{"policy":"auto","cfsQuotaBurstPeriodSeconds":-1}}}`
		key       = workloadFile + `: field metadata.annotations[koordinator.sh/cpuBurst].cfsQuotaBurstPeriodSeconds: `
	)
	for _, test := range []struct {
		name, admin, annotation string
		want                    int64
		warning                 string
	}{
		{"within", silent, `{"policy":"auto","cfsQuotaBurstPeriodSeconds":3600}`, 3600, ""},
		{"the longest", silent, `{"policy":"auto","cfsQuotaBurstPeriodSeconds":86400}`, 3600, key + `value 86400: allowed: at most burst.maxPeriodSeconds of /etc/berth/agent.yaml, 3600, which counts instead`},
		{"without limit", silent, `{"policy":"auto","cfsQuotaBurstPeriodSeconds":-1}`, 3600, key + `value -1: only allowed with burst.allowUnlimited of /etc/berth/agent.yaml; burst.maxPeriodSeconds, 3600, counts instead`},
		{"a lower cap", cap100, `{"policy":"auto","cfsQuotaBurstPeriodSeconds":101}`, 100, key + `value 101: allowed: at most burst.maxPeriodSeconds of /etc/berth/agent.yaml, 100, which counts instead`},
		{"allowed without limit", unlimited, `{"policy":"auto","cfsQuotaBurstPeriodSeconds":-1}`, -1, ""},
		{"not used", cap100, `{"policy":"cpuBurstOnly","cfsQuotaBurstPeriodSeconds":-1}`, 100, ""},
		{"the strategy's", strategy, `{"policy":"auto"}`, -1, ""},
		{"the strategy's policy", strategy, `{"cfsQuotaBurstPeriodSeconds":-1}`, 3600, key + `value -1: only allowed with burst.allowUnlimited of /etc/berth/agent.yaml; burst.maxPeriodSeconds, 3600, counts instead`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, findings := Resolve(document(map[string]string{koordinator: test.annotation}), workloadFile, administrator(t, test.admin))
			if w.Burst.PeriodSeconds != test.want || findings.Warnings.Error() != test.warning || len(findings.Refused) > 0 {
				t.Errorf("%d s, want %d; findings\n%s\nwant\n%s", w.Burst.PeriodSeconds, test.want, findings.Warnings.Error(), test.warning)
			}
		})
	}
}
