// Package fingerprint names what an MCP server declares, and where it is, by digests. It is pure:
// whoever pins a tool and whoever calls it share it.
//
// A digest is over the bytes that came over the wire, as RFC 8785 (JCS) writes their value: a
// typed decoding drops keywords that it does not know. JCS reads numbers as IEEE 754 doubles, so
// that a number whose value a double does not have is refused. [schemas.Decode] bounds what is
// read.
//
//	tool         = SHA-256("mcp-tool/1\0" + JCS(definition without icons))
//	part         = SHA-256("mcp-tool/1/" + part + "\0" + JCS(its fields))
//	endpoint     = SHA-256("mcp-endpoint/1\0" + JCS(what identifies where a server is))
//	instructions = SHA-256("mcp-instructions/1\0" + JCS(a server's instructions))
//	server       = SHA-256("mcp-server/1\0" + JCS({endpoint, protocol_version, capabilities,
//	               instructions, tools: [{name, fingerprint}, …] by name}))
//
// A fingerprint vouches for what is declared. What a tool does, nothing here can tell.
package fingerprint
