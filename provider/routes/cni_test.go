package routes

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const wantCNI = `{
  "cniVersion": "1.0.0",
  "name": "ccmadm",
  "plugins": [
    {
      "type": "ptp",
      "mtu": 1450,
      "ipam": {
        "type": "host-local",
        "ranges": [
          [
            {
              "subnet": "10.244.0.0/24"
            }
          ],
          [
            {
              "subnet": "fd00:10:244::/64"
            }
          ]
        ],
        "routes": [
          {
            "dst": "0.0.0.0/0"
          },
          {
            "dst": "::/0"
          }
        ]
      }
    },
    {
      "type": "portmap",
      "capabilities": {
        "portMappings": true
      }
    }
  ]
}
`

func TestWriteCNI(t *testing.T) {
	dir := t.TempDir()
	ranges := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:10:244::/64")}
	content, err := cniConfiguration(ranges, 1450)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		wrote, err := writeCNI(dir, content)
		if err != nil || wrote != want {
			t.Fatalf("got %t and error %v, want %t", wrote, err, want)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, cniFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantCNI, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("the directory has %v, error %v", left, err)
	}
}

func TestWriteCNI_BesideAnother(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "05-cilium.conflist"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrote, err := writeCNI(dir, []byte("{}"))
	if err == nil || !strings.Contains(err.Error(), "05-cilium.conflist is there, which is another network's") || wrote {
		t.Errorf("got %t and error %v", wrote, err)
	}
	if _, err := os.Stat(filepath.Join(dir, cniFile)); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want that it is not there", cniFile, err)
	}
}
