// What a run says while it lasts.

/** A line that is written over at a terminal, and new in a log. */
export function progress(name) {
  let last = ''
  return (words) => {
    if (words === last) return
    last = words
    if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${name}: ${words}`)
    else process.stderr.write(`${name}: ${words}\n`)
  }
}

/** A line that stays. */
export function say(words) {
  process.stderr.write(`${process.stderr.isTTY ? '\r\x1b[K' : ''}${words}\n`)
}
