package probe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEncode: an answer comes back whole where there is room, without texts of errors where there is less, and counted otherwise.
func TestEncode(t *testing.T) {
	for _, tt := range []struct{ failed, errorBytes, want int }{{0, 0, 0}, {3, 500, 3}, {60, 100, 60}, {400, 100, 0}} {
		a := Answer{Version: answerVersion, Asked: tt.failed + 5, Forwarding: "1", Link: "eth0", MTU: 1500}
		for i := range tt.failed {
			a.Failed = append(a.Failed, Failure{Target: i, Kind: Dropped, Error: strings.Repeat("é", tt.errorBytes/2)})
		}
		data, err := a.Encode()
		if err != nil || len(data) > mostBytes {
			t.Errorf("%d failures: %d bytes, %v", tt.failed, len(data), err)
			continue
		}
		got, err := Decode(data, a.Asked)
		if err != nil {
			t.Errorf("%d failures: %v", tt.failed, err)
			continue
		}
		if tt.want > 0 && len(got.Failed) != tt.want || len(got.Failed)+got.Cut != tt.failed || got.MTU != 1500 {
			t.Errorf("%d failures: got %d and %d more", tt.failed, len(got.Failed), got.Cut)
		}
	}
}

func TestDecode_Refuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "left none",
		"panic: no":                           "read the pod's answer",
		`{"v":2,"n":3}`:                       "version 1",
		`{"v":1,"n":4}`:                       "want 3 targets, got 4",
		`{"v":1,"n":3,"cut":-1}`:              "want 3 targets",
		`{"v":1,"n":3,"f":[{"t":3}]}`:         "target 3 is none of 3",
		`{"v":1,"n":3,"f":[{"t":1},{"t":1}]}`: "twice",
		`{"v":1,"n":3,"cut":9}`:               "9 more",
	} {
		if got, err := Decode([]byte(text), 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v; want %q", text, got, err, want)
		}
	}
}

func TestDefaultRoute(t *testing.T) {
	const header = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	const rows = "eth1\t00000000\t010210AC\t0003\t0\t0\t200\t00000000\t0\t0\t0\n" +
		"eth0\t00000000\t010010AC\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
		"eth2\t00000000\t00000000\t0201\t0\t0\t1\t00000000\t0\t0\t0\n" +
		"eth3\t000010AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
	const six = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00450003 eth1\n" +
		"fd000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth0\n" +
		"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo\n"
	got := []string{defaultRoute(header + rows), defaultRoute(header), defaultRoute("x\n"), defaultRoute6(six), defaultRoute6("")}
	if diff := cmp.Diff([]string{"eth0", "", "", "eth1", ""}, got); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
}
