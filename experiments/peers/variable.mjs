// A variable by which the lab tells a program what to do. docs/reference/experiments.md lists them.

/** The value of a variable. Without it, the program ends. */
export function variable(name) {
  const value = process.env[name]
  if (value !== undefined) return value
  process.stderr.write(`cannot read ${name}: the variable is not set; \`watchfire lab run\` starts this program with it\n`)
  process.exit(1)
}
