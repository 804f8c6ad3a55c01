import { page } from '../messages/page.ts'

/** A link that reports the page to the operator. */
export function ReportLink({ address, cid }: { address: string; cid: string }) {
  return (
    <p class="report">
      <a href={address.replaceAll('{cid}', encodeURIComponent(cid))} rel="noreferrer noopener" target="_blank">
        {page('report')}
      </a>
    </p>
  )
}
