// Package discover finds MCP servers in the files of other MCP hosts and in MCP
// registries, and writes them as mcpServers of chimera.yaml.
//
// # Files of hosts
//
// [Parse] reads the JSON of Claude Desktop, Claude Code, Cursor, Windsurf, Cline and
// others (mcpServers), of VS Code (servers and inputs, alone or under mcp in its
// settings) and of Zed (context_servers), with comments and trailing commas.
// [ServerJSON] reads the server.json of MCP registries, of the schema 2025-09-29 or later.
//
// What other hosts know and chimera.yaml does not is dropped, with a [Note]. What they
// allow without asking (autoApprove and the like) is never taken over.
//
// # Secrets
//
// No literal value of a header is taken over, and of an environment variable only what plainly is
// no secret: the path of a file or folder that is here, a short number, a boolean, and a short value of some
// well-known variables such as NODE_ENV. A note says which. For any other value a reference,
// ${env:NAME}, takes its place, and a note says which variable to set. Neither servers nor
// notes nor errors tell anything about that value, except that an error about malformed JSON
// shows the character at which it fails. References of hosts, such as ${input:key},
// become references to variables. Arguments and addresses cannot hold references, so what
// looks like a secret there is left out, and the server with it if it cannot start without.
// That is a guess by names and form: whoever imports servers must look at the arguments.
//
// # Versions
//
// A server that a package manager or a container engine starts is pinned by an exact
// version, or by a digest. If it is not, [Server.Unpinned] says so, [Resolver.Version] asks
// the package's registry for a version, and [Server.Pin] sets it.
package discover
