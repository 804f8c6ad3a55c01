import { agoText } from '../messages/index.ts'
import { page as text } from '../messages/page.ts'
import { navigate } from '../ui/location.ts'
import { useNow } from '../ui/use-now.ts'
import { handOver } from './draft-store.ts'
import type { HadPage } from './had-pages.ts'

/** Shown to the author of a page that is gone after a reload: until when it was here, and its text. */
export function LostView({ had: { until, draft }, name }: { had: HadPage; name: string }) {
  const now = useNow()
  const writeAgain = () => {
    if (draft === undefined) return
    handOver(draft)
    navigate('/')
  }
  return (
    <section class="coming" aria-live="polite">
      <h1>{until === null ? text('waitingFor', { name }) : text('hadUntil', { name, ago: agoText(now - until) })}</h1>
      <p aria-live="off">{text(draft === undefined ? 'hadFiles' : 'hadText')}</p>
      {draft !== undefined && (
        <>
          <pre class="had" dir="auto" translate={false}>
            {draft.text}
          </pre>
          <button type="button" class="strong" onClick={writeAgain}>
            {text('writeAgain')}
          </button>
        </>
      )}
    </section>
  )
}
