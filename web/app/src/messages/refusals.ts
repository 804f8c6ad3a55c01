import { matchLanguage } from './match-language.ts'

/** Texts of the service workers when they refuse a request, for a person who opens such a URL by hand. */
export const refusals = {
  get: 'This address answers only GET requests.',
  nothing: 'There is nothing here.',
  played: 'This can be opened only by the page it belongs to.',
  saved: 'This can be saved only from the page it belongs to.',
  media: 'Only audio, video and pictures can be streamed from this address.',
  tooMany: 'Too many files are being read at once. Close one and try again.',
  tabGone: 'The tab that offered this is closed, or offers it no longer.',
  failed: 'Something went wrong for an unknown reason. Reload to try again.',
  closed: 'The page is no longer open. Open its link again.',
  late: 'This took too long to load. Reload to try again.',
} as const

export type Refusal = keyof typeof refusals

/** The refusals of every language are built into the workers, because an installed worker loads nothing more. */
const others = import.meta.glob<Readonly<Record<Refusal, string>>>('./languages/*.json', { eager: true, import: 'refusals' })

const fileOf = (tag: string) => `./languages/${tag}.json`

export function refusalText(refusal: Refusal, tags = languagesRead()): string {
  const tag = matchLanguage(tags, (each) => Object.hasOwn(others, fileOf(each)))
  return (tag === null ? refusals : (others[fileOf(tag)] ?? refusals))[refusal]
}

/** The languages of the browser's user; none outside of a browser. */
function languagesRead(): readonly string[] {
  return (globalThis.navigator as Navigator | undefined)?.languages ?? []
}
