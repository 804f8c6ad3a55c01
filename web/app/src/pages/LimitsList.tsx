import '../style/page.css'
import type { Limit, Limits } from '../ui/site.ts'
import { numberText, sizeText } from '../messages/index.ts'
import { limits as text } from '../messages/limits.ts'

/** The limits of the server, for people who want to know before they share: those that they may reach, and then all. */
export function LimitsList({ limits }: { limits: Limits | null }) {
  if (limits === null || limits.size === 0) return null
  const limitOf = (name: string) => limits.get(name)?.value ?? null
  const [bytes, people, pages] = [limitOf('page_bytes_max'), limitOf('peers_per_page_max'), limitOf('pages_per_address_max')]
  return (
    <details class="limits">
      <summary>{text('title')}</summary>
      <ul>
        {bytes !== null && <li>{text('page', { size: sizeText(bytes) })}</li>}
        {people !== null && <li>{text('people', { count: people })}</li>}
        {pages !== null && <li>{text('pages', { count: pages })}</li>}
      </ul>
      <details>
        <summary>{text('all')}</summary>
        {/* Names and sentences are the server's, in its language. */}
        <dl lang="en" translate={false}>
          {[...limits].map(([name, limit]) => (
            <div key={name}>
              <dt>
                {name.replaceAll('_', ' ')} <b>{limitText(limit)}</b>
              </dt>
              <dd>{limit.whenReached}</dd>
            </div>
          ))}
        </dl>
      </details>
    </details>
  )
}

function limitText({ value, unit }: Limit): string {
  if (unit === 'bytes') return sizeText(value)
  if (unit.startsWith('bytes')) return `${sizeText(value)}${unit.slice('bytes'.length)}`
  return `${numberText(value)} ${unit}`
}
