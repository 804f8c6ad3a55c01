import { useId, useState } from 'preact/hooks'
import { page as text } from '../messages/page.ts'
import { shell } from '../messages/shell.ts'
import { navigate } from '../ui/location.ts'
import type { OpenPage } from '../ui/open-pages.ts'
import { isEmpty } from './draft.ts'
import { firstDraft, handOver } from './draft-store.ts'

/** Opens the editor with a copy of the page. A page never changes, because its link names its content; a copy can. */
export function CopyButton({ page: { session, filename } }: { page: OpenPage }) {
  const means = useId()
  const [problem, setProblem] = useState<string | null>(null)
  const state = session.state.value
  if (state.kind !== 'held') return null
  const copy = async () => {
    const { draft, hadFiles } = firstDraft()
    if ((hadFiles || !isEmpty(draft)) && !confirm(text('replaceDraft'))) return
    try {
      const { draftOf } = await import('./copy-page.ts')
      handOver(await draftOf(state.content, filename ?? session.name.value, session.key.value !== null))
      navigate('/')
    } catch {
      setProblem(shell('partMissing'))
    }
  }
  return (
    <div class="explained">
      <button type="button" aria-describedby={means} onClick={() => void copy()}>
        {text('change')}
      </button>
      <p class="small" id={means}>
        {text('changeMeans')}
      </p>
      {problem !== null && (
        <p class="bad" role="alert">
          {problem}
        </p>
      )}
    </div>
  )
}
