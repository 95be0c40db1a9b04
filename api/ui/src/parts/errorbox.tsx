import { ApiError } from '../lib/api';

/** ErrorBox shows why something could not be shown. name precedes the text, if one of several things failed. */
export function ErrorBox({ error, name }: { error: Error; name?: string }) {
  const status = error instanceof ApiError ? error.status : 0;
  return (
    <div class="error" role="alert">
      {name}<strong>{title(status)}</strong> {error.message}
    </div>
  );
}

function title(status: number): string {
  switch (status) {
    case 401: return 'You have to log in.';
    case 403: return 'You may not see or do this.';
    case 404: return 'The server does not have this.';
    case 503: return 'The server cannot answer now.';
    default: return 'This failed.';
  }
}
