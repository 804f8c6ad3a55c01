/** Why content cannot be made, loaded or shown. */
export type ContentProblem =
  /** Bytes are not what they claim to be. */
  | { kind: 'malformed'; what: string }
  /** Well formed, but of a kind we do not read. */
  | { kind: 'unsupported'; what: string }
  | { kind: 'too-large'; bytes: number; bytesMax: number }
  | { kind: 'too-many'; what: 'blocks' | 'entries' | 'parts'; max: number }
  | { kind: 'too-deep'; depthMax: number }
  /** Neither disk nor memory for more of it. */
  | { kind: 'no-room'; bytes: number }
  | { kind: 'missing'; cid: string }
  | { kind: 'no-such-file'; path: string }
  /** A name that no directory can hold, or that is there twice. */
  | { kind: 'bad-path'; path: string }

/** Something wrong with content; `message` is a sentence for people. */
export class ContentError extends Error {
  readonly problem: ContentProblem

  constructor(problem: ContentProblem) {
    super(sentence(problem))
    this.name = 'ContentError'
    this.problem = problem
  }
}

export function malformed(what: string): ContentError {
  return new ContentError({ kind: 'malformed', what })
}

function sentence(problem: ContentProblem): string {
  switch (problem.kind) {
    case 'malformed':
      return `The content is damaged: ${problem.what}.`
    case 'unsupported':
      return `The content is of a kind we cannot read: ${problem.what}.`
    case 'too-large':
      return `The content has ${sizeOf(problem.bytes)}, more than the ${sizeOf(problem.bytesMax)} a page may have here.`
    case 'too-many':
      return `The content has more than ${problem.max} ${problem.what}.`
    case 'too-deep':
      return `The content is nested deeper than ${problem.depthMax} levels.`
    case 'no-room':
      return `There is no room in this browser for more than ${sizeOf(problem.bytes)} of this page.`
    case 'missing':
      return `The block ${problem.cid} is not here.`
    case 'no-such-file':
      return `There is no file "${problem.path}".`
    case 'bad-path':
      return `"${problem.path}" cannot be the name of a file here.`
  }
}

function sizeOf(bytes: number): string {
  const mebibytes = bytes / (1 << 20)
  if (mebibytes < 1) return `${bytes.toLocaleString('en')} bytes`
  return mebibytes < 1024 ? `${Number(mebibytes.toFixed(1))} MiB` : `${Number((mebibytes / 1024).toFixed(1))} GiB`
}
