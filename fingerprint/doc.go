// Package fingerprint names what an MCP server declares of a tool by a digest. It is pure: whoever
// pins a tool and whoever calls it share it.
//
// A digest is over the bytes that came over the wire, as RFC 8785 (JCS) writes their value: a
// typed decoding drops keywords that it does not know. JCS reads numbers as IEEE 754 doubles, so
// that a number whose value a double does not have is refused. [schemas.Decode] bounds what is
// read.
//
//	tool   = SHA-256("mcp-tool/1\0" + JCS(definition without icons))
//	part   = SHA-256("mcp-tool/1/" + part + "\0" + JCS(its fields))
//	tools  = SHA-256("mcp-server-tools/1\0" + JCS([{name, fingerprint}, …] by name))
//
// A fingerprint vouches for what is declared. What a tool does, nothing here can tell.
package fingerprint
