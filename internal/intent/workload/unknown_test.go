package workload

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
)

// TestUnknownFieldsOfForeignKeys checks that a field of a later version of Koordinator, or a mistyped field, causes a
// warning and does not change the meaning of known fields.
func TestUnknownFieldsOfForeignKeys(t *testing.T) {
	app := Container{Name: "app", Resources: Resources{CPULimit: 4000}}
	p, problems := PinningOf(pod(nil, on(
		resources, `{"requiredCPUBindPolicy":"SpreadByPCPUs","numaAllocateStrategy":"MostAllocated"}`,
		numa, `{"numaTopologyPolicy":"Restricted","later":{"deep":[1]}}`,
	), app))
	if len(problems) > 0 || !p.Wanted || p.Bind != v1alpha1.CPUBindSpreadByPCPUs || !p.BindRequired || p.NUMA != v1alpha1.NUMARestricted {
		t.Fatalf("%v: %+v", problems, p)
	}
	text := p.UnknownText()
	for _, want := range []string{
		resources + `].numaAllocateStrategy: value "MostAllocated": allowed: only the fields`,
		numa + `].later: value {"deep":[1]}: allowed: only the fields`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("warning %q, want %q in it", text, want)
		}
	}
	if p, problems = PinningOf(pod(nil, on(resources, `{"requiredCPUBindPolicy":"Spread","later":1}`), app)); p.Wanted || len(problems) != 1 {
		t.Errorf("a value that is wrong beside a field that is unknown: %v: %+v", problems, p)
	}
}

// TestMovableIsTrueOrFalse checks that an invalid value of berth.dev/movable causes a warning, and that the pod still
// has its CPUs.
func TestMovableIsTrueOrFalse(t *testing.T) {
	app := Container{Name: "app", Resources: Resources{CPULimit: 4000}}
	for value, want := range map[string]string{
		"true": "", "false": "", "yes": v1alpha1.AnnotationMovable + `]: value "yes": allowed: "true" or "false" (in quotes)`,
	} {
		p, problems := PinningOf(pod(nil, on(v1alpha1.AnnotationMovable, value), app))
		if text := p.UnknownText(); len(problems) > 0 || !p.Wanted || (text == "") != (want == "") || !strings.HasSuffix(text, want) {
			t.Errorf("%s: %v, warning %q", value, problems, text)
		}
	}
}

func TestUnknownFieldOfCPUBurst(t *testing.T) {
	admin := AdministratorOf("agent.yaml", v1alpha1.AgentConfig{})
	burst, findings := BurstOf(keys{v1alpha1.AnnotationCPUBurst: `{"policy":"auto","cfsQuotaBurstPercent":200,"later":1}`}, admin)
	if len(findings.Refused) > 0 || burst.Policy != "auto" || burst.QuotaPercent != 200 {
		t.Fatalf("%v: %+v", findings.Refused, burst)
	}
	if len(findings.Warnings) != 1 || !strings.HasSuffix(findings.Warnings[0].Field, ".later") {
		t.Errorf("warnings %v", findings.Warnings)
	}
}
