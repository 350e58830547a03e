package lint_test

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
)

// argument is a line of good in whose place others stand.
const argument = "        - --leader-elect=true\n"

// with is good with further arguments.
func with(arguments ...string) string {
	return strings.Replace(good, argument, "        - "+strings.Join(arguments, "\n        - ")+"\n", 1)
}

// noPort serves none, and has no probe.
func noPort() string {
	const probe = "        livenessProbe:\n          httpGet: {path: /healthz, port: 10258, scheme: HTTPS, host: 127.0.0.1}\n"
	return strings.Replace(with("--secure-port=0"), probe, "", 1)
}

func TestCheck_Ports(t *testing.T) {
	second := strings.ReplaceAll(noPort()[:strings.Index(noPort(), "---\n")], "acme-cloud", "second-cloud")
	probed := func(input, port string) string { return strings.Replace(input, "port: 10258", "port: "+port, 1) }
	tests := []struct {
		name, input, want, left string
	}{
		{"neither port is served, as in Hetzner's manifest", noPort(), "", ""},
		{"no port is served, and the usual probe", with("--secure-port=0"), "B12:44", "B12:44"},
		{"one port for both", with("--secure-port=10260", "--webhook-secure-port=10260"), "B11:40 fix", ""},
		{"two on the host's network that serve no port", noPort() + "---\n" + second, "", ""},
		{"the former port, which is the secure one", probed(with("--secure-port=10253"), "10253"), "", ""},
		{"the former port", probed(good, "10253"), "B12:44 fix", ""},
		{"the former port, and no other", probed(with("--secure-port=0"), "10253"), "B12:44", "B12:44"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := parse(t, tt.input)
			findings, err := set.Check()
			if got := summary(findings); err != nil || got != tt.want {
				t.Errorf("found %q, error %v, want %q", got, err, tt.want)
			}
			if _, left := fixed(t, set.Check); summary(left) != tt.left {
				t.Errorf("left %q, want %q", summary(left), tt.left)
			}
		})
	}
}

// Two on the pod network that serve no port do not meet on the host's either.
func TestCheck_NoPortOnPodNetwork(t *testing.T) {
	one := strings.Replace(noPort(), "      hostNetwork: true\n", "", 1)
	findings, err := parse(t, one+"---\n"+strings.ReplaceAll(one, "acme", "other")).Check()
	if got := summary(findings); err != nil || got != "C1:17 fix C1:85 fix" {
		t.Errorf("found %q, error %v", got, err)
	}
}

// Flags of k8s.io/cloud-provider are judged where the program is known to have them.
func TestCheck_KnownProgram(t *testing.T) {
	known := func(input string) string {
		return strings.Replace(input, "--cloud-provider=acme", "--cloud-provider=openstack", 1)
	}
	byName := func(input string) string { return strings.Replace(input, "        - --cloud-provider=acme\n", "", 1) }
	tests := []struct {
		name, input, want, left string
		severity                finding.Severity
	}{
		{"known by its profile", known(with("--port=0")), "B13:39 fix", "", finding.SeverityError},
		{"a flag more than once", known(with("--port=0", "--port=1", "--port", "'2'")), "B13:41 fix", "", finding.SeverityError},
		{"known by --cloud-provider", with("--port=8080", "--address=0.0.0.0"), "B13:39 B13:40", "B13:39 B13:40", finding.SeverityWarning},
		{"known by its name", byName(with("--port=8080")), "B13:38", "B13:38", finding.SeverityWarning},
		{
			"a probe of a program that is known by its name",
			byName(strings.Replace(good, ", scheme: HTTPS", "", 1)), "B12:43", "B12:43", finding.SeverityWarning,
		},
		{
			"a probe of a program that is known by --cloud-provider",
			strings.Replace(good, ", scheme: HTTPS", "", 1), "B12:44 fix", "", finding.SeverityError,
		},
		{"a probe of no port", known(with("--secure-port=0")), "B12:44", "B12:44", finding.SeverityError},
		{
			"a probe of no port, of a program that may serve another", with("--secure-port=0"), "B12:44", "B12:44", finding.SeverityWarning,
		},
		{
			"routes of a program that is known by its name",
			byName(strings.Replace(good, "        - --configure-cloud-routes=false\n", "", 1)), "F1:30", "F1:30", finding.SeverityWarning,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := parse(t, tt.input)
			findings, err := set.Check()
			if got := summary(findings); err != nil || got != tt.want {
				t.Errorf("found %q, error %v, want %q", got, err, tt.want)
			}
			for _, f := range findings {
				if f.Severity != tt.severity {
					t.Errorf("%s is a %s, want a %s", f.ID, f.Severity, tt.severity)
				}
			}
			if _, left := fixed(t, set.Check); summary(left) != tt.left {
				t.Errorf("left %q, want %q", summary(left), tt.left)
			}
			if tt.left != "" && string(set.Files[0].Bytes()) != tt.input {
				t.Errorf("the text was changed:\n%s", set.Files[0].Bytes())
			}
		})
	}
}
