package workload

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

const (
	agentFile    = "/etc/berth/agent.yaml"
	workloadFile = "/etc/berth/workloads/redis.yaml"
	koordinator  = "koordinator.sh/cpuBurst"
	alibaba      = "alibabacloud.com/cpuBurst"
)

// administrator returns the agent's part of the policies from its JSON.
func administrator(t *testing.T, cfg string) Administrator {
	t.Helper()
	decoded, problems := v1alpha1.DecodeAgentConfig([]byte(cfg))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return AdministratorOf(agentFile, decoded)
}

const (
	silent   = `{"workloadDir":"w"}`
	generous = `{"workloadDir":"w","cpu-burst-config":{"clusterStrategy":{"policy":"cfsQuotaBurstOnly","cfsQuotaBurstPercent":200,"cpuBurstPercent":50}}}`
)

func TestBurst(t *testing.T) {
	tests := []struct {
		name        string
		admin       string
		annotations map[string]string
		want        Burst
	}{
		{
			name:  "nothing asked for",
			admin: silent,
			want:  Burst{Policy: "none", CPUBurstPercent: 1000, QuotaPercent: 300, PeriodSeconds: 60, Source: "clusterStrategy of /etc/berth/agent.yaml"},
		},
		{
			name:        "annotation with defaults",
			admin:       silent,
			annotations: map[string]string{koordinator: `{"policy":"auto"}`},
			want: Burst{
				Policy: "auto", KernelBurst: true, QuotaBurst: true,
				CPUBurstPercent: 1000, QuotaPercent: 300, PeriodSeconds: 60, Source: "annotation koordinator.sh/cpuBurst",
			},
		},
		{
			name:        "alias",
			admin:       silent,
			annotations: map[string]string{alibaba: `{"policy":"cpuBurstOnly","cpuBurstPercent":80}`},
			want: Burst{
				Policy: "cpuBurstOnly", KernelBurst: true,
				CPUBurstPercent: 80, QuotaPercent: 300, PeriodSeconds: 60, Source: "annotation alibabacloud.com/cpuBurst",
			},
		},
		{
			name:  "strategy",
			admin: generous,
			want: Burst{
				Policy: "cfsQuotaBurstOnly", QuotaBurst: true,
				CPUBurstPercent: 50, QuotaPercent: 200, PeriodSeconds: 60, Source: "clusterStrategy of /etc/berth/agent.yaml",
			},
		},
		{
			name:        "annotation over strategy, field by field",
			admin:       generous,
			annotations: map[string]string{koordinator: `{"policy":"auto","cfsQuotaBurstPeriodSeconds":600}`},
			want: Burst{
				Policy: "auto", KernelBurst: true, QuotaBurst: true,
				CPUBurstPercent: 50, QuotaPercent: 200, PeriodSeconds: 600, Source: "annotation koordinator.sh/cpuBurst",
			},
		},
		{
			name:        "annotation without a policy",
			admin:       generous,
			annotations: map[string]string{koordinator: `{"cfsQuotaBurstPercent":150}`},
			want: Burst{
				Policy: "cfsQuotaBurstOnly", QuotaBurst: true, CPUBurstPercent: 50, QuotaPercent: 150, PeriodSeconds: 60,
				Source: "policy of clusterStrategy of /etc/berth/agent.yaml, annotation koordinator.sh/cpuBurst",
			},
		},
		{
			name:        "own none over strategy",
			admin:       generous,
			annotations: map[string]string{koordinator: `{"policy":"none"}`},
			want:        Burst{Policy: "none", CPUBurstPercent: 50, QuotaPercent: 200, PeriodSeconds: 60, Source: "annotation koordinator.sh/cpuBurst"},
		},
		{
			name:        "switched off",
			admin:       `{"workloadDir":"w","burst":{"enabled":false}}`,
			annotations: map[string]string{koordinator: `{"policy":"auto"}`},
			want:        Burst{Policy: "none", Source: "burst.enabled of /etc/berth/agent.yaml", Off: ErrDisabled},
		},
		{
			name:        "a mistake does not fall back to the strategy",
			admin:       generous,
			annotations: map[string]string{koordinator: `{"policy":"auto","cfsQuotaBurstPercent":20000}`},
			want:        Burst{Policy: "none", Source: "annotation koordinator.sh/cpuBurst", Off: v1alpha1.ErrInvalid},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _ := Resolve(document(test.annotations), workloadFile, administrator(t, test.admin))
			if diff := cmp.Diff(test.want, got.Burst, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("burst (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindings(t *testing.T) {
	const capped = `{"workloadDir":"w","burst":{"maxPercent":250}}`
	const strategyAboveCap = `{"workloadDir":"w","burst":{"maxPercent":250},"cpu-burst-config":{"clusterStrategy":{"cfsQuotaBurstPercent":400}}}`
	tests := []struct {
		name, admin       string
		annotations       map[string]string
		refused, warnings string
		percent           int64
	}{
		{"fine", silent, map[string]string{koordinator: `{"policy":"auto"}`}, "", "", 300},
		{
			"refused", silent,
			map[string]string{koordinator: `{"policy":"quota","cpuBurstPercent":"9"}`},
			workloadFile + `: field metadata.annotations[koordinator.sh/cpuBurst].cpuBurstPercent: value "9": allowed: a whole number` + "\n" +
				workloadFile + `: field metadata.annotations[koordinator.sh/cpuBurst].policy: value "quota": allowed: one of none, cpuBurstOnly, cfsQuotaBurstOnly, auto`,
			"", 0,
		},
		{
			"not JSON", silent,
			map[string]string{alibaba: `policy: auto`},
			workloadFile + `: field metadata.annotations[alibabacloud.com/cpuBurst]: value "policy: auto": allowed: one JSON value: byte 0: invalid character 'p' looking for beginning of value`,
			"", 0,
		},
		{
			"capped", capped,
			map[string]string{koordinator: `{"policy":"auto","cfsQuotaBurstPercent":300}`},
			"", workloadFile + `: field metadata.annotations[koordinator.sh/cpuBurst].cfsQuotaBurstPercent: value 300: allowed: at most burst.maxPercent of /etc/berth/agent.yaml, 250, which counts instead`,
			250,
		},
		{"capped default is not the pod's", capped, map[string]string{koordinator: `{"policy":"auto"}`}, "", "", 250},
		{"capped strategy is not the user's", strategyAboveCap, map[string]string{koordinator: `{"policy":"auto"}`}, "", "", 250},
		{"capped and unused", capped, map[string]string{koordinator: `{"policy":"cpuBurstOnly","cfsQuotaBurstPercent":300}`}, "", "", 250},
		{"both keys agree", silent, map[string]string{koordinator: `{"policy":"auto"}`, alibaba: `{"policy":"auto"}`}, "", "", 300},
		{
			"both keys differ", silent,
			map[string]string{koordinator: `{"policy":"auto"}`, alibaba: `{"policy":"none"}`},
			"", workloadFile + `: field metadata.annotations[alibabacloud.com/cpuBurst]: value "{\"policy\":\"none\"}": allowed: the same as koordinator.sh/cpuBurst, which counts instead`,
			300,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, findings := Resolve(document(test.annotations), workloadFile, administrator(t, test.admin))
			if diff := cmp.Diff(test.refused, findings.Refused.Error()); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, findings.Warnings.Error()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if w.Burst.QuotaPercent != test.percent {
				t.Errorf("ceiling %d %%, want %d %%", w.Burst.QuotaPercent, test.percent)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	doc := v1alpha1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "batch", Labels: map[string]string{"koordinator.sh/qosClass": "BE"}},
		Spec: v1alpha1.WorkloadSpec{
			PIDs: []int{7, 3},
			CPU:  v1alpha1.WorkloadCPU{Request: new(resource.MustParse("100m")), Limit: new(resource.MustParse("2.5"))},
		},
	}
	got, _ := Resolve(doc, workloadFile, administrator(t, silent))
	want := Workload{Name: "batch", File: workloadFile, Labels: map[string]string{"koordinator.sh/qosClass": "BE"}, PIDs: []int{7, 3}, Request: 0.1, Limit: 2.5, Class: "BE", Offline: true, Burst: got.Burst}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workload (-want +got):\n%s", diff)
	}
	got.PIDs[0] = 1
	if doc.Spec.PIDs[0] != 7 {
		t.Error("the value shares its processes with the document")
	}
}

// TestEqual changes one field at a time, so that Equal cannot miss a new field.
func TestEqual(t *testing.T) {
	base := Workload{Name: "a", PIDs: []int{1}, Burst: Burst{Policy: "none", Off: ErrDisabled}}
	same := base
	same.PIDs = []int{1}
	same.Burst.Off = errors.New(ErrDisabled.Error())
	if !base.Equal(same) {
		t.Error("equal values differ")
	}
	eachField(t, reflect.TypeFor[Workload](), nil, func(path []int, name string) {
		other := base
		change(t, reflect.ValueOf(&other).Elem().FieldByIndex(path))
		if base.Equal(other) {
			t.Errorf("a change of %s goes unnoticed", name)
		}
	})
}

func eachField(t *testing.T, of reflect.Type, path []int, visit func([]int, string)) {
	t.Helper()
	for field := range of.Fields() {
		at := append(append([]int{}, path...), field.Index...)
		if field.Type == reflect.TypeFor[Burst]() || field.Type == reflect.TypeFor[InPod]() {
			eachField(t, field.Type, at, visit)
			continue
		}
		visit(at, of.Name()+"."+field.Name)
	}
}

func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"key": "other"}))
	case reflect.Slice:
		v.Set(reflect.ValueOf([]int{1, 2}))
	case reflect.Interface:
		v.Set(reflect.ValueOf(errors.New("another reason")))
	default:
		t.Fatalf("no way to change a %s", v.Kind())
	}
}

// FuzzAnnotation checks that an annotation takes effect completely or not at all, and never asks for more than the
// administrator permits.
func FuzzAnnotation(f *testing.F) {
	f.Add(`{"policy":"auto","cfsQuotaBurstPercent":9999}`, `{"policy":"none"}`)
	f.Add(`{"policy":"cfsQuotaBurstOnly","cpuBurstPercent":100,"cfsQuotaBurstPercent":300,"cfsQuotaBurstPeriodSeconds":-1}`, "")
	f.Add(`{"cfsQuotaBurstPercent":1e3}`, "null")
	f.Fuzz(func(t *testing.T, own, alias string) {
		admin := administrator(t, generous)
		w, findings := Resolve(document(map[string]string{koordinator: own, alibaba: alias}), workloadFile, admin)
		b := w.Burst
		if (b.Off != nil) != (len(findings.Refused) > 0) || (b.Off != nil && b.Wanted()) {
			t.Fatalf("burst %+v with findings %+v", b, findings)
		}
		if b.QuotaPercent > admin.MaxPercent || (b.Wanted() && b.QuotaPercent < 100) {
			t.Fatalf("ceiling %d %% in %+v", b.QuotaPercent, b)
		}
		if b.PeriodSeconds < 0 || b.PeriodSeconds > admin.MaxPeriodSeconds {
			t.Fatalf("credit period of %d s in %+v", b.PeriodSeconds, b)
		}
		for _, problem := range findings.Refused {
			if !strings.Contains(problem.Error(), koordinator) {
				t.Fatalf("the key is not named: %v", problem)
			}
		}
	})
}

func document(annotations map[string]string) v1alpha1.Workload {
	return v1alpha1.Workload{ObjectMeta: metav1.ObjectMeta{Name: "redis", Annotations: annotations}}
}
