import { useEffect, useState } from 'preact/hooks'
import { secondsText } from '../words/index.ts'
import { shell } from '../words/shell.ts'
import type { Site } from './site.ts'

const SECOND = 1000

/** That the server cannot be reached, and when it is called again. */
export function Banner({ site }: { site: Site }) {
  const lost = site.connection.value === 'lost'
  const retryAt = site.retryAt.value
  return (
    <div role="alert">
      {lost && (
        <p class="banner">
          {shell('lost')}{' '}
          {/* Counting down aloud would drown everything else. */}
          <span class="small" aria-hidden="true">
            <Countdown key={retryAt} to={retryAt} />
          </span>
        </p>
      )}
    </div>
  )
}

function Countdown({ to }: { to: number | null }) {
  const [left, setLeft] = useState(() => leftTo(to))
  useEffect(() => {
    const timer = setInterval(() => setLeft(leftTo(to)), SECOND / 4)
    return () => clearInterval(timer)
  }, [to])
  return <>{left > 0 ? shell('tryingIn', { wait: secondsText(left) }) : shell('trying')}</>
}

function leftTo(to: number | null): number {
  return to === null ? 0 : to - performance.now()
}
