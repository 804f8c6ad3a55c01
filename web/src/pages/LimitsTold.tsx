import type { Limit, Limits } from '../ui/site.ts'
import { sizeText } from '../ui/sizes.ts'

/** Every limit of the server, for those who want to know before they share. */
export function LimitsTold({ limits }: { limits: Limits | null }) {
  if (limits === null || limits.size === 0) return null
  return (
    <details class="limits">
      <summary>What are the limits?</summary>
      <dl>
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
  return `${value.toLocaleString('en')} ${unit}`
}
