// Output of a run in progress.

/** Overwrites one line at a terminal, and writes a new line to a log. */
export function progress(name) {
  let last = ''
  return (text) => {
    if (text === last) return
    last = text
    if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${name}: ${text}`)
    else process.stderr.write(`${name}: ${text}\n`)
  }
}

/** Prints a line that stays. */
export function printLine(text) {
  process.stderr.write(`${process.stderr.isTTY ? '\r\x1b[K' : ''}${text}\n`)
}
