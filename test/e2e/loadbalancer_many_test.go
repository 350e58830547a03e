package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const manyMeasured = 200

// measureMany measures how long many Services take until all have their addresses in their status, and what an agent
// costs then while nothing changes.
func (l *lab) measureMany(t *testing.T, figures *table, b contender) {
	t.Helper()
	l.apply(t, b.many)
	l.kubectl(t, "create namespace many")
	began := time.Now()
	l.must(t, "cp1", fmt.Sprintf(`for i in $(seq 1 %d); do cat <<END
---
{apiVersion: v1, kind: Service, metadata: {name: s$i, namespace: many}, spec: {type: LoadBalancer,
 loadBalancerClass: %s, allocateLoadBalancerNodePorts: false, selector: {app: echo}, ports: [{port: 80, targetPort: 8080}]}}
END
done | kubectl --kubeconfig /etc/kubernetes/admin.conf create -f - >/dev/null`, manyMeasured, b.class))
	created := time.Since(began)
	eventually(t, patience, "all Services have their address", func() bool {
		return len(strings.Fields(l.kubectl(t, withAddress))) == manyMeasured
	})
	published := time.Since(began)
	t.Logf("%s: %d Services were created in %s", b.who, manyMeasured, created.Round(100*time.Millisecond))
	figures.add(t, "200 Services published", "L2", figuresOf(published), 10*time.Second, time.Minute)
	time.Sleep(20 * time.Second)
	before, _ := l.usedBy(t, b.program)
	time.Sleep(time.Minute)
	after, megabytes := l.usedBy(t, b.program)
	idle := figuresOf(time.Duration((after - before) * float64(time.Second)))
	idle.megabytes = megabytes
	figures.add(t, "200 Services, an agent's minute", "L2", idle, 300*time.Millisecond, 3*time.Second)
	l.kubectl(t, "delete namespace many --timeout=240s")
}
