package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMachine_UnitVariable(t *testing.T) {
	const packaged = "# /usr/lib/x.conf\n[Service]\nEnvironment=\"ARGS=--config=x\"\n"
	for _, tt := range []struct{ name, unit, file, want string }{
		{name: "as packaged", unit: packaged, want: "--config=x"},
		{
			name: "the second of a line", unit: packaged + `Environment="GOGC=50" "ARGS=--config=y --config-dir=d"`,
			want: "--config=y --config-dir=d",
		},
		{
			name: "a comment", unit: packaged + "# before: Environment=\"ARGS=--old\"\n;Environment=ARGS=--older\n",
			want: "--config=x",
		},
		{name: "without quotes", unit: "Environment=ARGS=--config=x\nEnvironment=\"B=1\"\n", want: "--config=x"},
		{name: "quotes within", unit: `Environment=ARGS="--a --b='c d'" B=1`, want: "--a --b='c d'"},
		{name: "two lines", unit: "Environment=\"ARGS=--a \\\n# a comment\n --b\"\n", want: "--a  --b"},
		{name: "begun anew", unit: packaged + "Environment=\nEnvironment=B=1\n", want: "unset"},
		{name: "another variable", unit: "Environment=MY_ARGS=1 ARGSX=2\n", want: "unset"},
		{
			name: "a file wins", unit: "EnvironmentFile=-/etc/default/kubelet\n" + packaged,
			file: "# ARGS=--old\nARGS=--config=x --config-dir=d\n", want: "--config=x --config-dir=d",
		},
		{
			name: "a quoted file", unit: "EnvironmentFile=/etc/default/kubelet\n",
			file: `ARGS="--a=\"b\" --c"`, want: `--a="b" --c`,
		},
		{name: "no file", unit: packaged + "EnvironmentFile=-/etc/default/kubelet\n", want: "--config=x"},
		{
			name: "a file no more", unit: packaged + "EnvironmentFile=/etc/default/kubelet\nEnvironmentFile=\n",
			file: "ARGS=--a", want: "--config=x",
		},
		{name: "ours", unit: packaged + "EnvironmentFile=-/etc/ours\n", want: "--config=x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := At(t.TempDir())
			for path, content := range map[string]string{"/etc/default/kubelet": tt.file, "/etc/ours": "ARGS=--ours\n"} {
				if err := os.MkdirAll(filepath.Dir(m.Path(path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if content == "" {
					continue
				}
				if err := os.WriteFile(m.Path(path), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, set, err := m.UnitVariable(tt.unit, "ARGS", "/etc/ours")
			if !set {
				got = "unset"
			}
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
