import '../style/page.css'
import type { Limit, Limits } from '../ui/site.ts'
import { numberText, sizeText } from '../messages/index.ts'
import { home } from '../messages/home.ts'

/** Every limit of the server, for people who want to know before they share. */
export function LimitsList({ limits }: { limits: Limits | null }) {
  if (limits === null || limits.size === 0) return null
  return (
    <details class="limits">
      <summary>{home('limits')}</summary>
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
  )
}

function limitText({ value, unit }: Limit): string {
  if (unit === 'bytes') return sizeText(value)
  if (unit.startsWith('bytes')) return `${sizeText(value)}${unit.slice('bytes'.length)}`
  return `${numberText(value)} ${unit}`
}
