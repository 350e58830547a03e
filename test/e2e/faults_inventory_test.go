package e2e

import (
	"strings"
	"testing"
)

const (
	inventoryCluster = "Inventory, provider onprem"

	inventoryConf = "/etc/kubernetes/cloud-config/cloud.conf"
	goodInventory = "/root/good.yaml" // on cp1
	machinesMap   = "kubectl -n kube-system create configmap ccmadm-machines --from-file=inventory.yaml=" + goodInventory
	answer        = "/root/answer" // of the inventory's server
)

// inventoryFaults are of the list of machines, by where it is kept.
func inventoryFaults() [][]injected {
	return [][]injected{faultsOfInventoryFile(), faultsOfInventoryMap(), faultsOfInventoryServer()}
}

func faultsOfInventoryFile() []injected {
	return []injected{
		{id: "M15", what: "inventory's file without permissions", inject: "chmod 000 " + inventoryFile},
		{
			id: "M1", what: "inventory's file without permissions, and no last good one: a Node waits",
			inject: "chmod 000 " + inventoryFile + "; sleep 5\n" +
				"kubectl -n kube-system delete configmap ccmadm-machines-last-good" + restarted +
				"\nkubectl taint node w1 " + taint + "=true:NoSchedule",
		},
		{id: "M15", what: "inventory's file of another owner", inject: "chown 65532 " + inventoryFile},
		{id: "M15", what: "inventory's file removed", inject: "mv " + inventoryFile + " /root/"},
		{
			id: "M15", what: "inventory's file is a page of a proxy",
			inject: "echo '<html>503</html>' > " + inventoryFile,
			choice: "cp " + goodInventory + " " + inventoryFile,
		},
	}
}

func faultsOfInventoryMap() []injected {
	return []injected{
		{id: "M15", what: "inventory's ConfigMap deleted", inject: "kubectl -n kube-system delete configmap ccmadm-machines"},
		{
			id: "M15", what: "inventory's ConfigMap lists a machine twice",
			inject: "kubectl -n kube-system patch configmap ccmadm-machines --type=merge -p " +
				"\"$(sed 's/r1-u02/r1-u01/' " + goodInventory + " | awk '{printf \"%s\\\\n\", $0}' | sed 's/.*/{\"data\":{\"inventory.yaml\":\"&\"}}/')\"",
			choice: machinesMap + " --dry-run=client -o yaml | kubectl replace -f -",
		},
		{
			id: "W11", what: "RBAC: get of the inventory's ConfigMap taken",
			inject: "kubectl -n kube-system get role ccmadm:onprem -o yaml > /root/had.yaml\n" +
				"sed 's/^  - ccmadm-machines$/  - nothing/' /root/had.yaml > /root/role.yaml; grep -q nothing /root/role.yaml && kubectl replace -f /root/role.yaml",
		},
	}
}

func faultsOfInventoryServer() []injected {
	return []injected{
		{
			id: "M15", what: "inventory's server says 500",
			inject: "cp " + answer + " /root/well\n" +
				"printf 'HTTP/1.1 500 Internal Server Error\\r\\nContent-Length: 0\\r\\n\\r\\n' > " + answer,
			choice: "cp /root/well " + answer,
		},
		{
			id: "M15", what: "inventory's server hangs", inject: "systemctl kill -s STOP list",
			choice: "systemctl kill -s CONT list",
		},
	}
}

// serveList is a server with a certificate of its own CA at cp1's loopback, which gives the answer that a file has.
const serveList = `set -e
cd /root
openssl req -x509 -newkey rsa:2048 -nodes -keyout s.key -subj /CN=list -addext subjectAltName=IP:127.0.0.1 -days 2 \
  -out s.crt 2>/dev/null
cat s.key s.crt > s.pem
cp s.crt /etc/kubernetes/cloud-config/ca.crt
good=` + goodInventory + `
(printf 'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' $(stat -c %s $good); cat $good) > ` + answer + `
systemd-run --quiet --unit list socat OPENSSL-LISTEN:9443,bind=127.0.0.1,reuseaddr,fork,cert=/root/s.pem,verify=0 \
  "SYSTEM:head -1 >/dev/null; cat ` + answer + `"`

// TestFaults_Inventory is about a list of machines that the manager cannot read, or may not go by.
func TestFaults_Inventory(t *testing.T) {
	t.Parallel()
	l := &library{lab: up(t, "faultsinv", 1, 1), cluster: inventoryCluster}
	l.table = &faultTable{rows: map[string][]string{}}
	l.put(t, "/tmp/cloud.conf", strings.Replace(onpremConfig, "{", "{file: "+inventoryFile+", ", 1))
	l.put(t, goodInventory, listedTwo)
	l.must(t, "cp1", ccmadmInit+" --cloud-config /tmp/cloud.conf --credential inventory.yaml="+goodInventory)
	l.must(t, "w1", l.joinCommand(t))
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1")
	l.all(t, faultsOfInventoryFile())

	l.must(t, "cp1", asAdmin+machinesMap)
	l.readsFrom(t, "configMap: ccmadm-machines")
	l.all(t, faultsOfInventoryMap())

	l.must(t, "cp1", serveList)
	const server = `url: "https://127.0.0.1:9443/machines.yaml", caFile: /etc/kubernetes/cloud-config/ca.crt, timeout: 2s`
	l.readsFrom(t, server)
	l.all(t, faultsOfInventoryServer())
	l.table.write(t, "inventory", l.cluster)
}

// readsFrom has the manager read its list of machines from elsewhere.
func (l *library) readsFrom(t *testing.T, source string) {
	t.Helper()
	l.put(t, inventoryConf, strings.Replace(onpremConfig, "{", "{"+source+", ", 1))
	l.kubectl(t, "-n kube-system annotate configmap ccmadm-machines-last-good ccmadm.dev/inventory-state-")
	l.must(t, "cp1", strings.TrimSpace(restarted))
	l.expectConfirmed(t)
}
