import { choose } from './choose.ts'

/** What the service workers say when they give nothing, to whoever opens such an address by hand. */
export const refusals = {
  get: 'Only GET is answered here.',
  nothing: 'There is nothing here.',
  played: 'This goes into a player of the page it belongs to, and nowhere else.',
  saved: 'This is saved by the page it belongs to, and not shown.',
  media: 'Only sounds and films are streamed.',
  tooMany: 'Too many files are read at once.',
  tabGone: 'The tab that gave this out is gone, or does so no longer.',
  failed: 'Something went wrong, and nobody knows what.',
  closed: 'The page is not open any more.',
  late: 'It took too long to come.',
} as const

export type Refusal = keyof typeof refusals

/** A worker can fetch nothing more once it is installed, so these few of each language are in it. */
const others = import.meta.glob<Readonly<Record<Refusal, string>>>('./languages/*.json', { eager: true, import: 'refusals' })

const fileOf = (tag: string) => `./languages/${tag}.json`

export function refusalText(refusal: Refusal, tags = languagesRead()): string {
  const tag = choose(tags, (each) => Object.hasOwn(others, fileOf(each)))
  return (tag === null ? refusals : others[fileOf(tag)] ?? refusals)[refusal]
}

/** Of whoever the browser belongs to; of nobody where there is no browser. */
function languagesRead(): readonly string[] {
  return (globalThis.navigator as Navigator | undefined)?.languages ?? []
}
