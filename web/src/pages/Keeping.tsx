import { canStayAwake, isPhone, wasStopped, wishesAwake } from '../ui/awake.ts'
import type { KeptPage } from '../ui/hearth.ts'
import { isKept } from '../ui/hearth.ts'
import { page as words } from '../words/page.ts'
import { Toggle } from './Toggle.tsx'

/** What this tab does for the page: whether it keeps it burning, and what a phone makes of that. */
export function Keeping({ page }: { page: KeptPage }) {
  return (
    <div class="keeping">
      <Toggle
        words={words('keep')}
        title={words('keepMeans')}
        isOn={isKept(page)}
        onChange={(isOn) => (page.wish.value = isOn)}
      />
      {canStayAwake && (
        <Toggle words={words('awake')} isOn={wishesAwake.value} onChange={(isOn) => (wishesAwake.value = isOn)} />
      )}
      {isPhone && <p class="small">{words('asleep')}</p>}
      {wasStopped.value && (
        <p class="small" role="status">
          {words('hidden')}
        </p>
      )}
    </div>
  )
}
