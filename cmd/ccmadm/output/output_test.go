package output

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

type pool struct {
	Name string `json:"name"`
	Free int64  `json:"free"`
}

func TestFormat(t *testing.T) {
	pools := []pool{{"a", 1}, {"b", 9007199254740993}} // above 2^53, where a float is not exact
	for _, tc := range []struct {
		format  string
		objects func(io.Writer) error
		want    string
		wantErr string
	}{
		{format: Text, objects: Lines(pools), want: "a table\n"},
		{format: Wide, objects: Lines(pools), want: "a table\n"},
		{format: JSON, objects: Lines(pools), want: "{\"name\":\"a\",\"free\":1}\n{\"name\":\"b\",\"free\":9007199254740993}\n"},
		{format: YAML, objects: Lines(pools), want: "free: 1\nname: a\n---\nfree: 9007199254740993\nname: b\n"},
		{format: YAML, objects: Lines([]pool{}), want: ""},
		{format: JSON, objects: Object(pools[0]), want: "{\n  \"name\": \"a\",\n  \"free\": 1\n}\n"},
		{format: YAML, objects: Object(pools), want: "- free: 1\n  name: a\n- free: 9007199254740993\n  name: b\n"},
		{format: YAML, objects: Line("on"), want: "\"on\"\n"},
		{format: YAML, objects: Object(func() {}), wantErr: "unsupported type"},
		{format: "xml", wantErr: `read --output: "xml" is none of text, wide, json, yaml`},
	} {
		var f Format
		cmd := &cobra.Command{}
		f.Declare(cmd, Text, Wide, JSON, YAML)
		if err := cmd.ParseFlags([]string{"-o", tc.format}); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err := f.Check()
		if err == nil {
			err = f.Write(&out, tc.objects, func() error {
				_, err := io.WriteString(&out, "a table\n")
				return err
			})
		}
		if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
			t.Errorf("%s: got error %v, want %q", tc.format, err, tc.wantErr)
		}
		if diff := cmp.Diff(tc.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.format, diff)
		}
	}
}
