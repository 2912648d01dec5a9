package discover

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const hash = "0123456789abcdef0123456789abcdef01234567"

func TestUnpinned(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0f", 32)
	pinned := []string{
		"node server.js", "python -m mcp_server_git", "/usr/bin/true", "npx", "npx -y", "docker", "docker ps", "npm start", "uv run server.py", "go run .", "go run ./cmd/x",
		"npx -y pkg@1.2.3", "npx @a/b@1.2.3-rc.1", "npx.cmd --yes @a/b@v1.2.3", "npx -y --package=@a/b@1.2.3 b", "npx -p a@1.2.3 -p b@2.0.0 cmd", "npx -y ./local", "npx file:../x",
		"npx -y github:a/b#" + hash, "npx -y git+https://github.com/a/b.git#" + hash, "npx -y x@npm:@a/b@1.2.3",
		"npm exec -y -- pkg@1.2.3", "pnpm dlx pkg@1.2.3", "bunx pkg@1.2.3", "bun x pkg@1.2.3", "yarn dlx -p a@1.0.0 a",
		"uvx pkg==1.0", "uvx pkg@1.0.1", "uvx --from pkg==1.0.post1 cmd", "uvx --from=pkg[cli]==1.0 cmd", "uvx --python 3.12 pkg@1.0", "uvx -p 3.12 pkg@1.0",
		"uvx --from git+https://github.com/a/b@" + hash + " b", "uv tool run pkg@1.0", "uv --directory /x run --with mcp==1.2 s.py", "uvx --from . cmd",
		"pipx run pkg==1.0", "pipx run --spec pkg==1.0 cmd",
		"docker run -i --rm img@" + digest, "docker run -it -e A -v /a:/b --name n --network=host img:1@" + digest + " --port 1", "podman run -eA=b img@" + digest,
		"deno run -A npm:pkg@1.2.3", "deno run --allow-net=x npm:@a/b@1.2.3/cli", "deno run -A jsr:@a/b@1.0.0", "deno run server.ts",
		"dnx A.B@1.0.0 --yes", "dnx --version 1.0.0 A.B", "go run example.com/x@v1.2.3",
		"cmd /c npx -y pkg@1.2.3", "env A=b -i npx pkg@1.2.3",
	}
	for _, line := range pinned {
		words := strings.Fields(line)
		require.Nil(t, FindUnpinned(words[0], words[1:]), line)
	}
	for line, want := range map[string]Unpinned{
		"npx -y pkg":                             {Manager: "npm", Package: "pkg", Arg: 1},
		"npx -y @a/b@latest x@1.0.0":             {Manager: "npm", Package: "@a/b", Have: "latest", Arg: 1},
		"npx @a/b@^1.2.3":                        {Manager: "npm", Package: "@a/b", Have: "^1.2.3"},
		"npx @a/b@1.2":                           {Manager: "npm", Package: "@a/b", Have: "1.2"},
		"npx @a/b@1.x":                           {Manager: "npm", Package: "@a/b", Have: "1.x"},
		"npx --package=@a/b b@1.0.0":             {Manager: "npm", Package: "@a/b"},
		"npx -p a@1.0.0 -p b c":                  {Manager: "npm", Package: "b", Arg: 3},
		"npx --registry https://x.example pkg":   {Manager: "npm", Package: "pkg", Registry: "--registry", Arg: 2},
		"npx a/b":                                {Manager: "git", Package: "a/b"},
		"npx github:a/b#main":                    {Manager: "git", Package: "github:a/b#main"},
		"npx https://x.example/a.tgz":            {Manager: "url", Package: "https://x.example/a.tgz"},
		"npx x@npm:@a/b":                         {Manager: "npm", Package: "@a/b"},
		"NPX.CMD -y pkg":                         {Manager: "npm", Package: "pkg", Arg: 1},
		`C:\node\npx.cmd pkg`:                    {Manager: "npm", Package: "pkg"},
		"cmd /c npx -y pkg":                      {Manager: "npm", Package: "pkg", Arg: 3},
		"env A=b npx pkg":                        {Manager: "npm", Package: "pkg", Arg: 2},
		"npm exec pkg":                           {Manager: "npm", Package: "pkg", Arg: 1},
		"pnpm --dir /x dlx pkg":                  {Manager: "npm", Package: "pkg", Arg: 3},
		"uvx pkg":                                {Manager: "pypi", Package: "pkg"},
		"uvx pkg@latest":                         {Manager: "pypi", Package: "pkg", Have: "latest"},
		"uvx pkg>=1":                             {Manager: "pypi", Package: "pkg", Have: ">=1"},
		"uvx pkg==1.*":                           {Manager: "pypi", Package: "pkg", Have: "==1.*"},
		"uvx --from pkg[cli]~=1.0 cmd":           {Manager: "pypi", Package: "pkg[cli]", Have: "~=1.0", Arg: 1},
		"uvx --with a pkg@1.0":                   {Manager: "pypi", Package: "a", Arg: 1},
		"uvx --from git+https://h.example/a/b b": {Manager: "git", Package: "git+https://h.example/a/b", Arg: 1},
		"uvx --index-url https://x.example pkg":  {Manager: "pypi", Package: "pkg", Registry: "--index-url", Arg: 2},
		"uv run --with mcp s.py":                 {Manager: "pypi", Package: "mcp", Arg: 2},
		"pipx run pkg":                           {Manager: "pypi", Package: "pkg", Arg: 1},
		"pipx run --spec pkg cmd":                {Manager: "pypi", Package: "pkg", Arg: 2},
		"docker run -i --rm mcp/x":               {Manager: "oci", Package: "mcp/x", Arg: 3},
		"docker container run -it -e A mcp/x:1":  {Manager: "oci", Package: "mcp/x", Have: "1", Arg: 5},
		"docker run -p 1:2 host.example:5000/x":  {Manager: "oci", Package: "host.example:5000/x", Arg: 3},
		"docker run --pull always -- mcp/x":      {Manager: "oci", Package: "mcp/x", Arg: 4},
		"podman run -v/a:/b mcp/x@sha256:12":     {Manager: "oci", Package: "mcp/x@sha256", Have: "12", Arg: 2},
		"deno run -A npm:pkg":                    {Manager: "npm", Package: "pkg", Arg: 2},
		"deno run npm:pkg@1/cli":                 {Manager: "npm", Package: "pkg", Have: "1/cli", Arg: 1},
		"deno run https://x.example/s.ts":        {Manager: "url", Package: "https://x.example/s.ts", Arg: 1},
		"dnx A.B":                                {Manager: "nuget", Package: "A.B"},
		"go run example.com/x@latest":            {Manager: "go", Package: "example.com/x", Have: "latest", Arg: 1},
	} {
		words := strings.Fields(line)
		got := FindUnpinned(words[0], words[1:])
		require.NotNil(t, got, line)
		got.before, got.join = "", ""
		require.Equal(t, want, *got, line)
	}
}

func TestPin(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0f", 32)
	for _, c := range []struct{ line, version, want string }{
		{"npx -y pkg x", "1.2.3", "npx -y pkg@1.2.3 x"},
		{"npx --package=@a/b@latest b", "1.2.3", "npx --package=@a/b@1.2.3 b"},
		{"npx x@npm:a", "1.2.3", "npx x@npm:a@1.2.3"},
		{"uvx pkg", "1.0", "uvx pkg@1.0"},
		{"uvx --from pkg>=1 cmd", "2.0", "uvx --from pkg==2.0 cmd"},
		{"pipx run pkg", "2.0", "pipx run pkg==2.0"},
		{"docker run -i a/b:1 c", digest, "docker run -i a/b@" + digest + " c"},
		{"deno run -A npm:pkg@1", "1.2.3", "deno run -A npm:pkg@1.2.3"},
		{"dnx A.B", "1.0.0", "dnx A.B@1.0.0"},
		{"go run example.com/x@latest", "v1.0.0", "go run example.com/x@v1.0.0"},
	} {
		words := strings.Fields(c.line)
		s := Server{Name: "x", Command: words[0], Args: words[1:], Unpinned: FindUnpinned(words[0], words[1:])}
		require.Error(t, s.Pin("latest"))
		require.Error(t, s.Pin(c.version+" --evil"))
		require.NoError(t, s.Pin(c.version), c.line)
		require.Equal(t, c.want, strings.Join(append([]string{s.Command}, s.Args...), " "))
		require.Nil(t, s.Unpinned, c.line)
		require.Error(t, s.Pin(c.version))
	}
	s := Server{Command: "npx", Args: []string{"-p", "a", "-p", "b", "c"}}
	s.Unpinned = FindUnpinned(s.Command, s.Args)
	require.NoError(t, s.Pin("1.0.0"))
	require.Equal(t, "b", s.Unpinned.Package, "the next one")
	s = Server{Command: "npx", Args: []string{"github:a/b"}}
	s.Unpinned = FindUnpinned(s.Command, s.Args)
	require.Error(t, s.Pin("1.0.0"))
}
