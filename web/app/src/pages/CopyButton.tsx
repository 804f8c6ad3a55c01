import { useState } from 'preact/hooks'
import { page as text } from '../messages/page.ts'
import { shell } from '../messages/shell.ts'
import { navigate } from '../ui/location.ts'
import type { OpenPage } from '../ui/open-pages.ts'
import { isEmpty } from './draft.ts'
import { firstDraft, handOver } from './draft-store.ts'

/** Opens the editor with a copy of the page. A page never changes, because its link names its content; a copy can. */
export function CopyButton({ page: { session, filename } }: { page: OpenPage }) {
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
    <>
      <button type="button" title={text('changeMeans')} onClick={() => void copy()}>
        {text('change')}
      </button>
      {problem !== null && (
        <p class="bad" role="alert">
          {problem}
        </p>
      )}
    </>
  )
}
