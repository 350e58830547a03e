package e2e

import (
	"slices"
	"strings"
	"testing"
)

// watchSkew notes, on a machine, each change of what its API server answers and of what its manager is: two minors.
func (l *lab) watchSkew(t *testing.T, node string) {
	t.Helper()
	l.must(t, node, "cat > /root/skew.sh <<'END'\n"+skewScript+"END\nsystemd-run --unit skew bash /root/skew.sh")
}

const (
	skewLog    = "/root/skew.log"
	skewScript = `api=none; last=
while sleep 0.3; do
  now=$(curl -sk -m 2 https://127.0.0.1:6443/version | sed -n 's/.*"minor": *"\([0-9]*\).*/\1/p')
  api=${now:-$api}
  manager=$(sed -n 's,.*image: *lab.local/ccm:v1\.\([0-9]*\).*,\1,p' ` + ccmManifest + `)
  [ "$api $manager" = "$last" ] || { last="$api $manager"; echo "$last" >> ` + skewLog + `; }
done
`
)

// expectNeverNewer reads what watchSkew has noted.
func (l *lab) expectNeverNewer(t *testing.T, node string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(l.must(t, node, "cat "+skewLog)), "\n")
	t.Logf("%s: API server and manager: %s", node, strings.Join(lines, ", "))
	both := func(minor string) string { n := strings.TrimPrefix(minor, "1."); return n + " " + n }
	if !slices.Contains(lines, both(l.step.from)) || lines[len(lines)-1] != both(l.step.to) {
		t.Errorf("%s: the way from %s to %s was not seen", node, l.step.from, l.step.to)
	}
	for _, line := range lines {
		if api, manager, _ := strings.Cut(line, " "); api != "none" && api < manager {
			t.Errorf("%s: a manager of 1.%s asked an API server of 1.%s", node, manager, api)
		}
	}
}
